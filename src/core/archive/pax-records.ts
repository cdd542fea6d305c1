import { WaybillError } from '../errors.ts';

/**
 * The records of a pax header, `<length> <key>=<value>\n` each, values as bytes, since only some of them are
 * text. Throws `malformed_archive` if a length is wrong: a reader that goes on there sees other files than
 * the next reader. Pure.
 */
export function readPaxRecords(body: Buffer): Map<string, Buffer> {
  const records = new Map<string, Buffer>();
  for (let start = 0; start < body.byteLength;) {
    const space = body.indexOf(0x20, start);
    const digits = space === -1 ? '' : body.toString('latin1', start, Math.min(space, start + 9));
    const end = /^[1-9]\d{0,7}$/.test(digits) ? start + Number(digits) : -1;
    const equals = body.indexOf(0x3d, space);
    if (end <= space || end > body.byteLength || body[end - 1] !== 0x0a || equals === -1 || equals >= end)
      throw broken();
    records.set(body.toString('latin1', space + 1, equals), body.subarray(equals + 1, end - 1));
    start = end;
  }
  return records;
}

function broken(): WaybillError {
  return new WaybillError('malformed_archive', 'a pax header of the archive is damaged', {
    hint: 'make the archive again with tar',
  });
}
