import type { IncomingMessage, ServerResponse } from 'node:http';
import { WaybillError } from '../../core/errors.ts';
import { requestContext } from '../http/request/request-context.ts';

const mostBytes = 16 * 1024;
const jsonType = /^application\/(?:[a-z0-9.-]+\+)?json$/;

/**
 * The JSON body of a request that hardly needs one; undefined if it is empty. Throws
 * `unsupported_media_type` for a body of another type, and `invalid_request` for one that is not JSON or has
 * more than 16 KiB.
 */
export async function readSmallJson(req: IncomingMessage, res: ServerResponse): Promise<unknown> {
  const type = (req.headers['content-type'] ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? '';
  if (type !== '' && !jsonType.test(type)) throw wrongType(res, `"${type}" is not JSON`);
  const encoding = req.headers['content-encoding'];
  if (encoding !== undefined && encoding !== 'identity')
    throw wrongType(res, 'a Content-Encoding is not taken');
  if (Number(req.headers['content-length'] ?? 0) > mostBytes) throw tooLong();
  // Bytes on their way that `Expect` holds back would never come.
  if (req.headers.expect !== undefined) res.writeContinue();
  const bytes = await readBytes(req);
  requestContext(req).received = bytes.length;
  if (bytes.length === 0) return undefined;
  if (type === '') throw wrongType(res, 'the body has no Content-Type');
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes)) as unknown;
  } catch (cause) {
    throw new WaybillError('invalid_request', 'the body is not JSON', { cause, hint: 'send {} or nothing' });
  }
}

/**
 * Listens instead of iterating, which would destroy the connection, and the answer with it, when it stops
 * early.
 */
function readBytes(req: IncomingMessage): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let length = 0;
    const settle = (end: () => void) => (): void => {
      req.off('data', take).off('end', whole).off('close', left).off('error', left);
      end();
    };
    const take = (chunk: Buffer): void => {
      chunks.push(chunk);
      length += chunk.length;
      if (length > mostBytes) settle(() => reject(tooLong()))();
    };
    const whole = settle(() => resolve(Buffer.concat(chunks)));
    const left = settle(() =>
      reject(new WaybillError('aborted', 'the client closed the connection before the body was whole')),
    );
    req.on('data', take).on('end', whole).on('close', left).on('error', left);
  });
}

function tooLong(): WaybillError {
  return new WaybillError('invalid_request', `the body has more than ${mostBytes} bytes`, {
    hint: 'this route takes a small JSON object',
  });
}

function wrongType(res: ServerResponse, message: string): WaybillError {
  res.setHeader('Accept-Post', 'application/json');
  return new WaybillError('unsupported_media_type', message, {
    hint: 'send application/json as it is, or no body',
  });
}
