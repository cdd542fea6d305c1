import type { WaybillError } from '../../../lib/errors.ts';
import type { S3Calls } from './calls.ts';

/**
 * Returns the function that decodes listed names. Names are requested in URL encoding, because XML cannot
 * represent all of them; a server that does not support that sends them as they are. Pure.
 */
export function decodeListed(encodingType: string | undefined): (name: string | undefined) => string {
  if (encodingType !== 'url') return (name = '') => name;
  return (name = '') => decodeURIComponent(name.replaceAll('+', ' '));
}

/** A page is marked as not the last one, but does not say where the next one begins. */
export function cutShort({ unusableAnswer }: S3Calls, prefix: string): WaybillError {
  return unusableAnswer(
    prefix,
    'a listing that is cut short and does not say how to go on',
    'this is a defect of the server; waybill never takes part of a listing for all of it',
  );
}
