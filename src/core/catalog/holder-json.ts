import type { Holder } from './catalog.ts';
import { asInteger, asObject, asString, asStringOrNull } from './parse-fields.ts';

/** The JSON form of a holder in the lock file and the catalog. Pure. */
export function holderToJson({ host, pid, bootId, process, thread, instanceId }: Holder): object {
  return { host, pid, boot_id: bootId, process, thread, instance_id: instanceId };
}

/** Throws `Malformed` if the value is not a holder. Pure. */
export function parseHolder(value: unknown, at: string): Holder {
  const holder = asObject(value, at);
  return {
    host: asString(holder['host'], `${at}.host`),
    pid: asInteger(holder['pid'], `${at}.pid`),
    bootId: asStringOrNull(holder['boot_id'], `${at}.boot_id`),
    process: asStringOrNull(holder['process'], `${at}.process`),
    // Earlier versions did not record the thread.
    thread: asStringOrNull(holder['thread'] ?? null, `${at}.thread`),
    instanceId: asString(holder['instance_id'], `${at}.instance_id`),
  };
}
