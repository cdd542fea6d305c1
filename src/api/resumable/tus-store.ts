import type { Readable } from 'node:stream';
import { DataStore, Upload } from '@tus/server';
import { type NewPartialUpload, offsetOf, type PartialUpload } from '../../workers/staging/partial-upload.ts';
import { unknownUpload, type PartialUploads } from '../../workers/staging/partial-uploads.ts';

/**
 * The partial uploads of the daemon as `@tus/server` sees them, for one request. Not its own file store,
 * which tells a full disk from nothing, and acknowledges the last byte before there is a run.
 *
 * @param wanted What the request wants to create; undefined for every other request.
 */
export class TusStore extends DataStore {
  readonly #uploads: PartialUploads;
  readonly #wanted: NewPartialUpload | undefined;

  constructor(uploads: PartialUploads, wanted?: NewPartialUpload) {
    super();
    this.#uploads = uploads;
    this.#wanted = wanted;
    this.extensions = ['creation', 'creation-defer-length', 'termination', 'expiration'];
  }

  override async create(upload: Upload): Promise<Upload> {
    if (this.#wanted === undefined) throw new TypeError('the request creates no upload');
    const created = await this.#uploads.create({
      ...this.#wanted,
      length: upload.size ?? null,
      metadata: upload.metadata ?? null,
    });
    // The library goes on with its own value: it is to have the name under which the upload is found.
    return Object.assign(upload, seen(created));
  }

  override async getUpload(id: string): Promise<Upload> {
    return seen(this.#find(id));
  }

  override async write(stream: Readable, id: string, offset: number): Promise<number> {
    if (this.#find(id).outcome === null) await this.#uploads.write(id, offset, stream);
    // Nothing can be added: that it begins at the end, the library has seen.
    else stream.resume();
    const { received, outcome } = this.#find(id);
    return outcome === null ? received : offset;
  }

  override async declareUploadLength(id: string, length: number): Promise<void> {
    await this.#uploads.declareLength(id, length);
  }

  override async remove(id: string): Promise<void> {
    this.#find(id);
    await this.#uploads.remove(id);
  }

  override getExpiration(): number {
    return this.#uploads.retentionMs;
  }

  #find(id: string): PartialUpload {
    const upload = this.#uploads.find(id);
    if (upload === undefined) throw unknownUpload();
    return upload;
  }
}

function seen(upload: PartialUpload): Upload {
  const { id, length, metadata, touchedAt } = upload;
  return new Upload({
    id,
    offset: offsetOf(upload),
    ...(length === null ? {} : { size: length }),
    ...(metadata === null ? {} : { metadata }),
    // What it expires from.
    creation_date: touchedAt.toISOString(),
  });
}
