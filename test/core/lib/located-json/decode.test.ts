import fc from 'fast-check';
import t from 'tap';
import { decodeUtf8 } from '../../../../src/core/lib/located-json/decode.ts';

t.test('decodes text, and reports and skips a byte order mark', async (t) => {
  t.same(decodeUtf8(Buffer.from('é夜')), { ok: true, text: 'é夜', hasByteOrderMark: false });
  t.same(decodeUtf8(Buffer.from('\ufeff{}')), { ok: true, text: '{}', hasByteOrderMark: true });
  t.same(decodeUtf8(Buffer.from('\ufffd')), { ok: true, text: '\ufffd', hasByteOrderMark: false });
});

t.test('reports the position of the first invalid byte', async (t) => {
  const cases: [bytes: number[], byte: number, line: number, column: number][] = [
    [[0xff], 1, 1, 1],
    [[0x61, 0x0a, 0xc3, 0xa9, 0xc3, 0x28], 5, 2, 2],
    [[0x61, 0xe2, 0x82], 2, 1, 2],
    [[0xef, 0xbf, 0x28], 1, 1, 1],
    [[0x0a, 0x0a, 0x80], 3, 3, 1],
    [[0xf0, 0x9f, 0x98, 0x80, 0xed, 0xa0, 0x80], 5, 1, 3],
  ];
  for (const [bytes, byte, line, column] of cases)
    t.match(
      decodeUtf8(Buffer.from(bytes)),
      { ok: false, byte, line, column },
      Buffer.from(bytes).toString('hex'),
    );
  t.match(decodeUtf8(Buffer.from('\ufeff{}', 'utf16le')), { ok: false, byte: 1, looksLikeUtf16: true });
});

t.test(
  "agrees with the platform's decoder, and all bytes before the invalid one are text (property)",
  async () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 12 }), (bytes) => {
        const decoded = decodeUtf8(bytes);
        let expected: string | null = null;
        try {
          expected = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
        } catch {
          // Not UTF-8.
        }
        if (expected !== null) return decoded.ok && decoded.text === expected;
        return !decoded.ok && decodeUtf8(bytes.subarray(0, decoded.byte - 1)).ok;
      }),
      { numRuns: 5000 },
    );
  },
);
