import { WaybillError } from '../errors.ts';
import type { Storage } from './storage.ts';

/** The errors that every driver tells in the same words. */
export function notFound(storage: Pick<Storage, 'label'>, key: string, cause?: unknown): WaybillError {
  return new WaybillError('storage_not_found', `${storage.label}: "${key}" is not there`, { cause });
}

export function alreadyExists(storage: Pick<Storage, 'label'>, key: string, cause?: unknown): WaybillError {
  return new WaybillError('storage_exists', `${storage.label}: "${key}" exists already`, { cause });
}

export function versionConflict(storage: Pick<Storage, 'label'>, key: string, cause?: unknown): WaybillError {
  return new WaybillError('storage_conflict', `${storage.label}: "${key}" was changed by someone else`, {
    cause,
  });
}

export function readOnly(storage: Pick<Storage, 'label'>, key: string): WaybillError {
  return new WaybillError(
    'storage_denied',
    `${storage.label}: was opened read-only, so "${key}" cannot be changed`,
  );
}
