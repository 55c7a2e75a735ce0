// Answers what the engines make of texts: one JSON request per line of stdin, one JSON answer per line.
//
//   {"engine": "types", "texts": [...]}       -> per text SiYuan's blocks as [[kind, subtype, [children...]], ...]
//   {"engine": "markdown", "texts": [...]}    -> per text the blocks that blocks.js prints
//   {"engine": "commonmark", "texts": [...]}  -> per text CommonMark's blocks, kinds named as SiYuan's
//
// A text that SiYuan's engine panics on is null.
'use strict';
const readline = require('readline');
const commonmark = require('commonmark');
const siyuan = require('./blocks.js');

// Nearly all of the time goes into writing markdown, which blocks.js does for every block with an
// engine of its own; where only types are asked for, one engine parses and the others do nothing.
const made = siyuan.Lute.New;
const IDLE = {BlockDOM2StdMd: () => ''};
let engines = Infinity;
siyuan.Lute.New = () => (engines-- > 0 ? made() : IDLE);

const blocks = text => { const found = siyuan.safeTree(text); return Array.isArray(found) ? found : null; };
const types = found => found && found.map(b => [b.type, b.subtype, types(b.children || [])]);

const NAMES = {
  paragraph: 'p', heading: 'h', thematic_break: 'tb', block_quote: 'b', list: 'l', item: 'i', html_block: 'html',
  code_block: 'c',
};
const HOLDS = new Set(['document', 'block_quote', 'list', 'item']);
function children(node) {
  const found = [];
  if (HOLDS.has(node.type)) {
    for (let at = node.firstChild; at; at = at.next) {
      found.push([NAMES[at.type], at.type === 'heading' ? 'h' + at.level : '', children(at)]);
    }
  }
  return found;
}

const ENGINES = {
  types: text => { engines = 1; return types(blocks(text)); },
  markdown: text => { engines = Infinity; return blocks(text); },
  commonmark: text => children(new commonmark.Parser().parse(text)),
};

readline.createInterface({input: process.stdin}).on('line', line => {
  const request = JSON.parse(line);
  process.stdout.write(JSON.stringify(request.texts.map(ENGINES[request.engine])) + '\n');
});
