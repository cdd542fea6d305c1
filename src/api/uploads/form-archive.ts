import type { IncomingHttpHeaders } from 'node:http';
import busboy from 'busboy';
import { asWaybillError, WaybillError } from '../../core/lib/errors.ts';
import { formReason } from '../http/request/form-reason.ts';

/** The name of the form's file field. */
export const formPart = 'bundle';

/** The fields that may come before the file. */
export interface FormFields {
  names: readonly string[];
  /** Called with these fields when the file begins. If it throws, the upload fails with that error. */
  check: (fields: ReadonlyMap<string, string>) => void;
}

const noFields: FormFields = { names: [], check: () => undefined };
const maxFieldChars = 500;

/**
 * Extracts the file `bundle` from a `multipart/form-data` body (RFC 7578) as a stream. Throws
 * `unsupported_media_type` right away if the headers have no boundary. While the stream is read, throws
 * `invalid_request` if the form is truncated, has no such file, or has other parts.
 */
export function formArchive(
  headers: IncomingHttpHeaders,
  { names, check }: FormFields = noFields,
): (body: AsyncIterable<Uint8Array>) => AsyncIterable<Uint8Array> {
  const parser = openParser(headers, names.length);
  return async function* archive(body) {
    // The file's data from the chunk that was parsed last.
    const found: Uint8Array[] = [];
    const files: string[] = [];
    let refusal: WaybillError | undefined;
    const refuse = (message: string): void => void (refusal ??= invalid(message));
    const fields = new Map<string, string>();
    parser.on('file', (given, file) => {
      const name = nameOf(given);
      if (name !== formPart) refuse(`the form has the file "${name}"`);
      else if (files.length > 0) refuse(`the form has a second file "${formPart}"`);
      files.push(name);
      try {
        check(fields);
      } catch (error) {
        refusal ??= asWaybillError(error);
      }
      file.on('data', (chunk: Uint8Array) => found.push(chunk));
      file.on('error', () => refuse('the form ends within its file'));
    });
    parser.on('field', (given, value) => {
      const name = nameOf(given);
      if (names.includes(name) && files.length === 0) fields.set(name, value);
      else if (name === formPart) refuse(`"${formPart}" of the form is text and not a file`);
      else refuse(`the form has the field "${name}"`);
    });
    parser.on('error', (error: Error) => refuse(formReason(error)));
    const take = function* (): Iterable<Uint8Array> {
      if (refusal !== undefined) throw refusal;
      yield* found.splice(0);
    };
    try {
      for await (const chunk of body) {
        await new Promise((resolve) => parser.write(chunk, resolve));
        yield* take();
      }
      await new Promise((resolve) => {
        parser.once('close', resolve).once('error', resolve);
        parser.end();
      });
      yield* take();
      if (files.length === 0) throw invalid('the form has no file');
    } finally {
      parser.destroy();
    }
  };
}

/**
 * Shortens the name of a part for use in an error message. Despite the parser's types, a part may have no
 * name.
 */
function nameOf(given: string | undefined): string {
  return (given ?? '').slice(0, 80);
}

function openParser(headers: IncomingHttpHeaders, fields: number): busboy.Busboy {
  try {
    // Stop after one extra field or file, because that is enough to reject the form.
    return busboy({
      headers,
      limits: { files: 2, fields: fields + 1, fieldSize: fields === 0 ? 0 : maxFieldChars, headerPairs: 20 },
    });
  } catch (cause) {
    throw new WaybillError('unsupported_media_type', 'the Content-Type names no boundary of the form', {
      cause,
      hint: 'let the browser or the library write the Content-Type of a form',
    });
  }
}

function invalid(message: string): WaybillError {
  return new WaybillError('invalid_request', message, {
    hint: `send a form with one file, named "${formPart}", and nothing else`,
  });
}
