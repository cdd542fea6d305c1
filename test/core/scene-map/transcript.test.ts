import t from 'tap';
import { readTranscript, type TranscriptOptions } from '../../../src/core/scene-map/transcript.ts';

const read = (text: string, options: TranscriptOptions = {}) =>
  readTranscript(Buffer.from(text), 'talk', options);

t.test('each known format gives its segment ids', async (t) => {
  t.same(read('[{"segment_id": 3}, {"segment_id": 1}]'), { format: 'json', ids: [1, 3] });
  t.same(read('{"segment_id": 1, "text": "a"}\n\n{"segment_id": 2}\n'), { format: 'jsonl', ids: [1, 2] });
  t.same(read('speaker,segment_id,text\nA,4,"x, y\nz"\nB,5,\n'), { format: 'csv', ids: [4, 5] });
  t.same(read('\uFEFFid;text\r\n7;x\r\n', { idKeys: ['segment_id', 'id'] }), { format: 'csv', ids: [7] });
  t.same(read('segment_id\n1\n2\n'), { format: 'csv', ids: [1, 2] });
  t.same(read('[{"id": 9}]', { idKeys: ['segment_id', 'id'] }), { format: 'json', ids: [9] });
});

t.test('cues count by their number where each has one, else by order', async (t) => {
  const srt = '10\n00:00:01,000 --> 00:00:02,000\nHello\n\n11\n00:00:02,000 --> 00:00:03,000\nThere\n';
  t.same(read(srt), { format: 'srt', ids: [10, 11] });
  t.same(read(srt, { cueIds: 'order' }), { format: 'srt', ids: [1, 2] });
  const vtt =
    'WEBVTT - talk\n\nNOTE x\n\n00:01.000 --> 00:02.000 align:start\nHello\n\nintro\n00:02.000 --> 00:03.000\nThere\n';
  t.same(read(vtt), { format: 'webvtt', ids: [1, 2] });
  t.throws(() => read(vtt, { cueIds: 'number' }), { code: 'usage', message: /cue 1 has no number/ });
  t.throws(() => read(srt.replace('11', '10')), { message: /used twice/ });
});

t.test('what is not known is refused with the reason', async (t) => {
  const refused: [string, RegExp][] = [
    ['', /empty/],
    ['Bram: hello\nIlva: hi\n', /neither/],
    ['[]', /no segments/],
    ['[{"segment_id": "1"}]', /segment_id of item 0 is no integer/],
    ['[{"segment_id": 1.5}]', /no integer/],
    ['[{"id": 1}]', /item 0 has no segment_id/],
    ['[1]', /item 0 is no object/],
    ['[{]', /no JSON/],
    ['{"segment_id": 1}\nnope\n', /line 2 is no JSON/],
    ['{"segments": [{"segment_id": 1}]}', /list inside/],
    ['id,text\n1,x\n', /no column segment_id/],
    ['segment_id,text\nx,1\n', /row 2 has "x"/],
    ['segment_id,text\n1,"x\n', /no CSV/],
    ['WEBVTT\n\n00:01 --> 00:02\nx\n', /line 3 is no cue timing/],
  ];
  for (const [text, reason] of refused)
    t.throws(() => read(text), { code: 'usage', message: reason }, JSON.stringify(text));
  t.throws(() => readTranscript(Buffer.from([0xff, 0xfe, 0x31]), 'talk'), { message: /UTF-8/ });
});
