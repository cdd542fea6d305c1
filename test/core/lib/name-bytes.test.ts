import { isUtf8 } from 'node:buffer';
import t from 'tap';
import { escapedName } from '../../../src/core/lib/text.ts';
import { generator } from '../../support/sampling.ts';

t.test('shows invalid characters as bytes and the rest unchanged', async (t) => {
  const rows: [Buffer | string, string][] = [
    ['plain name.txt', 'plain name.txt'],
    ['café 😀 \ufffd', 'café 😀 \ufffd'],
    [Buffer.from('café.txt', 'latin1'), String.raw`caf\xe9.txt`],
    [Buffer.from([0xed, 0xa0, 0x80]), String.raw`\xed\xa0\x80`],
    [Buffer.from([0x2e, 0xc0, 0xaf]), String.raw`.\xc0\xaf`],
    [Buffer.from([0x61, 0xf0, 0x9f, 0x98]), String.raw`a\xf0\x9f\x98`],
    ['a\n"\\\u0000\u0085\u2028', String.raw`a\n\"\\\u0000\u0085\u2028`],
    ['', ''],
  ];
  for (const [bytes, text] of rows) t.equal(escapedName(Buffer.from(bytes)), text);
});

t.test('different names are shown differently, on one line', async (t) => {
  const random = generator('escaped names');
  const shown = new Map<string, string>();
  for (let count = 0; count < 5000; count += 1) {
    const alphabet = [0x5c, 0x78, 0x65, 0x39, 0xe9, 0xc3, 0xa9, 0x0a];
    const bytes = Buffer.from(
      Array.from({ length: 1 + Math.floor(random() * 5) }, () => alphabet[Math.floor(random() * 8)] ?? 0),
    );
    const text = escapedName(bytes);
    const hex = bytes.toString('hex');
    if ((shown.get(text) ?? hex) !== hex) t.fail(`${hex} and ${shown.get(text)} are both shown as ${text}`);
    if (text.includes('\n') || !isUtf8(Buffer.from(text))) t.fail(`${hex} is shown as ${text}`);
    shown.set(text, hex);
  }
  t.ok(shown.size > 1000);
});
