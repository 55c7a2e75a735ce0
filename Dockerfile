# copydesk over HTTP with the review page; compose.yaml starts it with Redis
FROM python:3.13-slim
COPY . /src
RUN pip install --no-cache-dir "/src[redis]" && rm -rf /src && useradd --create-home copydesk
USER copydesk
WORKDIR /workspace
EXPOSE 8427
CMD ["copydesk", "serve", "--root", "/workspace", "--host", "0.0.0.0"]
