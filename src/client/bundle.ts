import { stat } from 'node:fs/promises';
import { packDirectory } from '../core/bundle/pack/pack-directory.ts';
import { type PackSettings, parsePackSettings } from '../core/bundle/pack/pack-settings.ts';
import {
  archiveForm,
  idempotencyKeyOf,
  openPackedFile,
  type PackedBundle,
  type PackedFile,
} from '../core/bundle/pack/packed-bundle.ts';
import { type Digest, digestOf } from '../core/lib/digest.ts';
import { type Finding, WaybillError } from '../core/lib/errors.ts';
import { sizeAndDigest } from '../core/storage/body.ts';
import { type Pieces, skip, type Upload } from './archive.ts';

export interface BundleOptions extends PackSettings {
  /**
   * Any new string. It makes the idempotency key different, so that the bundle is published again even if the
   * daemon already has a run for it.
   */
  salt?: string;
  /** Called with the size of each chunk read while determining the bundle's size, in bytes. */
  onMeasured?: (bytes: number) => void;
  /**
   * Called with the size of each chunk read for sending, in bytes. Within one attempt, they add up to
   * `sentBytes`. For a resumable upload, this counts the bytes that have actually been sent.
   */
  onSent?: (bytes: number) => void;
}

export interface PreparedUpload extends Upload {
  pieces: Pieces;
  /** The total size passed to `onSent` in one attempt, in bytes. */
  sentBytes: number;
  /** Problems that are not bad enough to prevent publication. */
  warnings: readonly Finding[];
  /** The directory that was packed, or null if it already was an archive. */
  directory: string | null;
}

/**
 * Prepares the upload of a directory, which is packed while it is being sent, or of an existing tar or tar.gz
 * file. Throws a `usage` error if it is anything else, and `invalid_bundle` with a list of everything that
 * the daemon would reject.
 */
export async function prepareUpload(place: string, options: BundleOptions = {}): Promise<PreparedUpload> {
  const { salt, onMeasured, onSent, ...settings } = options;
  const found = await stat(place).catch(() => null);
  if (found?.isDirectory() === false) {
    if (settings.sign !== undefined) throw cannotSignArchive(place);
    const file = await openPackedFile(place);
    return {
      open: () => file.open(onSent),
      size: file.size,
      contentType: file.isCompressed ? 'application/gzip' : 'application/x-tar',
      idempotencyKey: idempotencyKeyOf(file.contentDigest, salt),
      sentBytes: file.size,
      pieces: { ...fileSource(file), onSent },
      warnings: [],
      directory: null,
    };
  }
  const bundle = await packDirectory(place, {
    ...parsePackSettings(settings),
    onBytes: onMeasured,
  });
  const key = idempotencyKeyOf(bundle.contentDigest, salt);
  return {
    open: () => bundle.open(onSent),
    contentType: 'application/gzip',
    idempotencyKey: key,
    sentBytes: bundle.tarBytes,
    pieces: { ...bundleSource(bundle, bundle), onSent },
    parts: {
      manifest: bundle.manifest,
      files: bundle.files,
      bytes: bundle.bytes,
      only: (digests) => {
        const part = bundle.partial(digests as ReadonlySet<Digest>);
        return {
          open: () => part.open(onSent),
          contentType: 'application/gzip',
          idempotencyKey: key,
          pieces: { ...bundleSource(bundle, part, part.digest), onSent },
          files: part.files,
          bytes: part.bytes,
        };
      },
    },
    warnings: bundle.warnings,
    directory: place,
  };
}

function cannotSignArchive(place: string): WaybillError {
  return new WaybillError('usage', `"${place}" is packed already and cannot be signed`, {
    hint: 'push the directory, or sign it before it is packed: waybill pack --sign KEY',
  });
}

function fileSource(file: PackedFile): Pieces {
  return {
    fingerprint: async () => (await sizeAndDigest(file.open())).digest,
    readBytes: file.size,
    open: (from, onRead) => {
      onRead(from);
      return file.open(onRead, from);
    },
  };
}

/**
 * Makes a bundle's upload resumable. Packing always produces the same bytes, so we can just pack the bundle
 * again.
 *
 * @param which A digest that identifies the files in `archive`. By default, that is all the files in the
 * bundle.
 */
function bundleSource(
  bundle: PackedBundle,
  archive: Pick<PackedBundle, 'tarBytes' | 'open'>,
  which?: Digest,
): Pieces {
  const { manifest, signature, contentDigest } = bundle;
  const signed = signature === null ? [] : [digestOf(signature)];
  const about = [archiveForm, digestOf(manifest), contentDigest, ...signed, ...(which ? [which] : [])];
  return {
    fingerprint: async () => `packed ${digestOf(about.join(' '))}`,
    readBytes: archive.tarBytes,
    open: (from, onRead) => skip(archive.open(onRead), from),
  };
}
