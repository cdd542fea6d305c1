import { stat } from 'node:fs/promises';
import { packDirectory } from '../core/pack/pack-directory.ts';
import { parsePackSettings, type PackSettings } from '../core/pack/pack-settings.ts';
import { archiveForm, idempotencyKeyOf, type PackedBundle } from '../core/pack/packed-bundle.ts';
import { packedFile, type PackedFile } from '../core/pack/packed-file.ts';
import { digestOf, type Digest } from '../core/digest.ts';
import type { Finding } from '../core/finding.ts';
import { measure } from '../core/storage/body.ts';
import { after, type Pieces, type Upload } from './upload/upload.ts';

export interface BundleOptions extends PackSettings {
  /**
   * Makes the bundle one that was never sent before, so that it is published though the daemon remembers the
   * very same one; any text that is new.
   */
  salt?: string;
  /** Gets the bytes that were read to be measured, chunk by chunk. */
  onMeasured?: (bytes: number) => void;
  /**
   * Gets what was read to be sent, chunk by chunk: in each try, `sentBytes` in all. Of an upload in several
   * requests, what has been sent.
   */
  onSent?: (bytes: number) => void;
}

export interface PreparedUpload extends Upload {
  pieces: Pieces;
  /** What `onSent` adds up to in one try. */
  sentBytes: number;
  /** What a person should know and what does not keep the bundle from being published. */
  warnings: readonly Finding[];
  /** The directory that was packed; null for an archive. */
  directory: string | null;
}

/**
 * A directory, packed while it is sent, or a tar or tar.gz as it is, ready to be uploaded. Throws `usage` for
 * what is neither, and `invalid_bundle` with everything that the daemon would refuse.
 */
export async function prepareUpload(place: string, options: BundleOptions = {}): Promise<PreparedUpload> {
  const { salt, onMeasured, onSent, ...settings } = options;
  const found = await stat(place).catch(() => null);
  if (found?.isDirectory() === false) {
    const file = await packedFile(place);
    return {
      open: () => file.open(onSent),
      size: file.size,
      contentType: file.isCompressed ? 'application/gzip' : 'application/x-tar',
      idempotencyKey: idempotencyKeyOf(file.contentDigest, salt),
      sentBytes: file.size,
      pieces: { ...piecesOfFile(file), ...(onSent === undefined ? {} : { onSent }) },
      warnings: [],
      directory: null,
    };
  }
  const bundle = await packDirectory(place, {
    ...parsePackSettings(settings),
    ...(onMeasured === undefined ? {} : { onBytes: onMeasured }),
  });
  const key = idempotencyKeyOf(bundle.contentDigest, salt);
  const told = onSent === undefined ? {} : { onSent };
  return {
    open: () => bundle.open(onSent),
    contentType: 'application/gzip',
    idempotencyKey: key,
    sentBytes: bundle.tarBytes,
    pieces: { ...piecesOfBundle(bundle, bundle), ...told },
    parts: {
      manifest: bundle.manifest,
      files: bundle.files,
      bytes: bundle.bytes,
      only: (digests) => {
        const part = bundle.only(digests as ReadonlySet<Digest>);
        return {
          open: () => part.open(onSent),
          contentType: 'application/gzip',
          idempotencyKey: key,
          pieces: { ...piecesOfBundle(bundle, part, part.digest), ...told },
          files: part.files,
          bytes: part.bytes,
        };
      },
    },
    warnings: bundle.warnings,
    directory: place,
  };
}

function piecesOfFile(file: PackedFile): Pieces {
  return {
    fingerprint: async () => (await measure(file.open())).digest,
    readBytes: file.size,
    open: (from, onRead) => {
      onRead(from);
      return file.open(onRead, from);
    },
  };
}

/**
 * The archive is the same whenever it is packed, so that it can be gone on with by packing it once more.
 *
 * @param which Of the bundle's files are in `archive`; nothing: all.
 */
function piecesOfBundle(
  bundle: PackedBundle,
  archive: Pick<PackedBundle, 'tarBytes' | 'open'>,
  which?: Digest,
): Pieces {
  const about = [archiveForm, digestOf(bundle.manifest), bundle.contentDigest, ...(which ? [which] : [])];
  return {
    fingerprint: async () => `packed ${digestOf(about.join(' '))}`,
    readBytes: archive.tarBytes,
    open: (from, onRead) => after(archive.open(onRead), from),
  };
}
