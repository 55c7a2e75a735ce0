"""The kinds of edits, a module each; `copydesk.edit.request` has the table of them."""
