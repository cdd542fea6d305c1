import { WaybillError } from '../../lib/errors.ts';

/**
 * Parses the records of a pax header, `<length> <key>=<value>\n` each. Values are bytes, because not all are
 * text. Throws `malformed_archive` if a length is wrong: programs that tolerate it may see different files.
 * Pure.
 */
export function readPaxRecords(body: Buffer): Map<string, Buffer> {
  const records = new Map<string, Buffer>();
  for (let start = 0; start < body.byteLength;) {
    const [, digits] = /^([1-9]\d{0,7}) /.exec(body.toString('latin1', start, start + 9)) ?? [];
    if (digits === undefined) throw broken();
    const end = start + Number(digits);
    const record = body.subarray(start + digits.length + 1, end - 1);
    const equals = record.indexOf(0x3d);
    if (body[end - 1] !== 0x0a || equals === -1) throw broken();
    records.set(record.toString('latin1', 0, equals), record.subarray(equals + 1));
    start = end;
  }
  return records;
}

function broken(): WaybillError {
  return new WaybillError('malformed_archive', 'a pax header of the archive is damaged', {
    hint: 'make the archive again with tar',
  });
}
