import t from 'tap';
import { readTranscript, type TranscriptOptions } from '../../../src/core/scene-map/transcript.ts';

const read = (text: string, options: TranscriptOptions = {}) =>
  readTranscript(Buffer.from(text), 'talk', options);

t.test('reads the segment ids of each known format', async (t) => {
  t.same(read('[{"segment_id": 3}, {"segment_id": 1}]'), { format: 'json', ids: [1, 3] });
  t.same(read('{"segment_id": 1, "text": "a"}\n\n{"segment_id": 2}\n'), { format: 'jsonl', ids: [1, 2] });
  t.same(read('speaker,segment_id,text\nA,4,"x, y\nz"\nB,5,\n'), { format: 'csv', ids: [4, 5] });
  t.same(read('\uFEFFid;text\r\n7;x\r\n', { idKeys: ['segment_id', 'id'] }), { format: 'csv', ids: [7] });
  t.same(read('segment_id\n1\n2\n'), { format: 'csv', ids: [1, 2] });
  t.same(read('[{"id": 9}]', { idKeys: ['segment_id', 'id'] }), { format: 'json', ids: [9] });
});

t.test('identifies cues by their number if each has one, else by order', async (t) => {
  const srt = '10\n00:00:01,000 --> 00:00:02,000\nHello\n\n11\n00:00:02,000 --> 00:00:03,000\nThere\n';
  t.same(read(srt), { format: 'srt', ids: [10, 11] });
  t.same(read(srt, { cueIds: 'order' }), { format: 'srt', ids: [1, 2] });
  const vtt =
    'WEBVTT - talk\n\nNOTE x\n\n00:01.000 --> 00:02.000 align:start\nHello\n\nintro\n00:02.000 --> 00:03.000\nThere\n';
  t.same(read(vtt), { format: 'webvtt', ids: [1, 2] });
  t.throws(() => read(vtt, { cueIds: 'number' }), { code: 'usage', message: /cue 1 has no number/ });
});

t.test('rejects a duplicate segment id in every format', async (t) => {
  const cues = (...numbers: number[]): string =>
    numbers.map((number) => `${number}\n00:00:01,000 --> 00:00:02,000\nHello\n`).join('\n');
  const repeated: [string, string, TranscriptOptions?][] = [
    ['JSON', '[{"segment_id": 7}, {"segment_id": 8}, {"segment_id": 7}]'],
    ['JSON, as 7 and 7.0', '[{"segment_id": 7}, {"segment_id": 7.0}]'],
    ['JSON under two keys', '[{"segment_id": 7}, {"id": 7}]', { idKeys: ['segment_id', 'id'] }],
    ['JSON Lines', '{"segment_id": 7}\n{"segment_id": 8}\n{"segment_id": 7}\n'],
    ['CSV', 'segment_id,text\n7,a\n8,b\n7,c\n'],
    ['CSV, as 7 and 07', 'segment_id\n7\n07\n'],
    ['CSV, as 0 and -0', 'segment_id\n0\n-0\n'],
    ['SRT', cues(7, 8, 7)],
    ['SRT by number', cues(7, 7), { cueIds: 'number' }],
    ['WebVTT', `WEBVTT\n\n${cues(7, 8, 7)}`],
  ];
  for (const [name, text, options] of repeated)
    t.throws(() => read(text, options), { code: 'usage', message: /(?:0|7) is used more than once/ }, name);
  t.same(read(cues(7, 8, 7), { cueIds: 'order' }).ids, [1, 2, 3], 'the order has no repeats');
});

t.test('rejects unknown values with the reason', async (t) => {
  const refused: [string, RegExp][] = [
    ['', /empty/],
    ['Bram: hello\nIlva: hi\n', /neither/],
    ['[]', /no segments/],
    ['[{"segment_id": "1"}]', /segment_id of item 0 is not an integer/],
    ['[{"segment_id": 1.5}]', /not an integer/],
    ['[{"id": 1}]', /item 0 has no segment_id/],
    ['[1]', /item 0 is not an object/],
    ['[{]', /not valid JSON/],
    ['{"segment_id": 1}\nnope\n', /line 2 is not a JSON object/],
    ['{"segments": [{"segment_id": 1}]}', /list inside/],
    ['id,text\n1,x\n', /no column segment_id/],
    ['segment_id,text\nx,1\n', /row 2 has "x"/],
    ['segment_id,text\n1,"x\n', /not valid CSV/],
    ['WEBVTT\n\n00:01 --> 00:02\nx\n', /line 3 is not a cue timing/],
  ];
  for (const [text, reason] of refused)
    t.throws(() => read(text), { code: 'usage', message: reason }, JSON.stringify(text));
  t.throws(() => readTranscript(Buffer.from([0xff, 0xfe, 0x31]), 'talk'), { message: /UTF-8/ });
});
