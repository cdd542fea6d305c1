import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { open, rename } from 'node:fs/promises';
import path from 'node:path';
import { manifestName } from '../../../core/bundle/manifest.ts';
import { packDirectory } from '../../../core/bundle/pack/pack-directory.ts';
import { parsePackSettings } from '../../../core/bundle/pack/pack-settings.ts';
import { idempotencyKeyOf, type PackedBundle } from '../../../core/bundle/pack/packed-bundle.ts';
import { type Digest, finishDigest, startDigest } from '../../../core/lib/digest.ts';
import { WaybillError } from '../../../core/lib/errors.ts';
import { formatSize } from '../../../core/lib/settings/units.ts';
import { makeOutput, type Output, plural } from '../../output/output.ts';
import { type ProgressBar, progressBar } from '../../output/progress.ts';
import { endedBySignal } from '../../process/stop-signal.ts';
import type { BundleFlags, CommonOptions } from '../../setup/command-options.ts';
import { namedAfter, packSettings } from '../../setup/pack-settings.ts';

export interface PackFlags extends Omit<CommonOptions, 'verbose'>, BundleFlags {
  output?: string;
  manifestOnly: boolean;
}

/** The files written, in addition to the facts of the bundle. */
interface Written {
  archive: { path: string; size: number; digest: Digest } | null;
  manifest: string | null;
}

/** `waybill pack`. Checks every file before it writes anything. */
export async function pack(directory: string, flags: PackFlags): Promise<number> {
  const output = makeOutput({ json: flags.format === 'json', color: flags.color });
  const target = flags.manifestOnly ? null : targetOf(directory, flags);
  const naming = flags.manifestOnly ? {} : namedAfter(directory);
  const options = parsePackSettings({ ...packSettings(flags), ...naming });
  const bar = progressBar(!output.isJson);
  return endedBySignal(async () => {
    try {
      const bundle = await packDirectory(directory, { ...options, onBytes: bar.onBytes });
      const written =
        target === null ? await writeManifest(directory, bundle) : await writeArchive(target, bundle, bar);
      bar.stop();
      tell(directory, bundle, written, output);
      return 0;
    } finally {
      bar.stop();
    }
  });
}

/** The absolute path of the archive, or `-`. Throws `usage` if the archive cannot be written there. */
function targetOf(directory: string, { output, format }: PackFlags): string {
  if (output === '-') {
    if (format === 'json')
      throw new WaybillError('usage', 'the archive and the JSON document cannot both go to standard output', {
        hint: 'give -o FILE with --format json',
      });
    return '-';
  }
  if (output === '') throw new WaybillError('usage', '-o needs the name of a file');
  const whole = path.resolve(directory);
  const target = path.resolve(output ?? `${path.basename(whole) || 'bundle'}.tar.gz`);
  if (target === whole || target.startsWith(`${whole}${path.sep}`))
    throw new WaybillError('usage', `the archive "${target}" would be inside the directory that it packs`, {
      hint: 'give -o a place outside of the directory',
    });
  return target;
}

async function writeManifest(directory: string, bundle: PackedBundle): Promise<Written> {
  const file = path.join(directory, manifestName);
  if (bundle.isNew) await writeBytes(file, [bundle.manifest]);
  return { archive: null, manifest: bundle.isNew ? file : null };
}

async function writeArchive(target: string, bundle: PackedBundle, bar: ProgressBar): Promise<Written> {
  const bytes = bundle.open(bar.onBytes);
  if (target !== '-')
    return { archive: { path: target, ...(await writeBytes(target, bytes)) }, manifest: null };
  return { archive: { path: '-', ...(await writeToStdout(bytes)) }, manifest: null };
}

function tell(directory: string, bundle: PackedBundle, { archive, manifest }: Written, output: Output): void {
  const { name, created, files, bytes, contentDigest, isNew, warnings } = bundle;
  if (output.isJson) {
    output.json('pack', {
      directory,
      manifest: { isNew, written: manifest },
      archive,
      name,
      created,
      files,
      bytes,
      idempotencyKey: idempotencyKeyOf(contentDigest),
      warnings,
    });
    return;
  }
  for (const warning of warnings) output.warn(warning);
  const amount = `${plural(files, 'file')}, ${formatSize(bytes)}`;
  if (archive?.path === '-') {
    output.note(`packed ${directory}: ${amount}; ${formatSize(archive.size)} sent to standard output`);
    return;
  }
  const { style } = output;
  if (archive === null)
    output.data(
      isNew
        ? `${style.green('written')}  ${manifest ?? ''}  ${amount}`
        : `${style.green('valid')}  ${path.join(directory, manifestName)}  ${amount}`,
    );
  else
    output.data(
      `${style.green('packed')}  ${path.relative('.', archive.path)}  ${amount}, ${formatSize(archive.size)} packed  ${style.dim(archive.digest)}`,
    );
}

type Bytes = AsyncIterable<Uint8Array> | Iterable<Uint8Array>;

/**
 * Writes the bytes to `file` atomically: to a temporary file in the same directory, which is then renamed.
 * Throws `usage` if the file cannot be written there, and the error of the bytes.
 */
async function writeBytes(file: string, bytes: Bytes): Promise<{ size: number; digest: Digest }> {
  const scratch = path.join(path.dirname(file), `.${path.basename(file)}.${randomUUID().slice(0, 8)}`);
  const handle = await open(scratch, 'wx').catch((error: unknown) => {
    throw unwritable(file, error);
  });
  // However the process ends: a signal ends it by `exit`.
  const remove = (): void => rmSync(scratch, { force: true });
  process.on('exit', remove);
  const hash = startDigest();
  let size = 0;
  try {
    try {
      for await (const chunk of bytes) {
        hash.update(chunk);
        size += chunk.byteLength;
        for (let done = 0; done < chunk.byteLength;)
          done += (
            await handle.write(chunk, done).catch((error: unknown) => {
              throw unwritable(file, error);
            })
          ).bytesWritten;
      }
    } finally {
      await handle.close();
    }
    await rename(scratch, file).catch((error: unknown) => {
      throw unwritable(file, error);
    });
  } finally {
    remove();
    process.off('exit', remove);
  }
  return { size, digest: finishDigest(hash) };
}

async function writeToStdout(bytes: AsyncIterable<Uint8Array>): Promise<{ size: number; digest: Digest }> {
  const hash = startDigest();
  let size = 0;
  for await (const chunk of bytes) {
    hash.update(chunk);
    size += chunk.byteLength;
    if (!process.stdout.write(chunk)) await once(process.stdout, 'drain');
  }
  return { size, digest: finishDigest(hash) };
}

function unwritable(file: string, error: unknown): WaybillError {
  const reason = error instanceof Error ? error.message : String(error);
  return new WaybillError('usage', `"${file}" cannot be written: ${reason}`, {
    hint: 'name a place that exists and may be written',
    cause: error,
  });
}
