import { once } from 'node:events';
import path from 'node:path';
import { manifestName, signatureName } from '../../../core/bundle/manifest.ts';
import { packDirectory } from '../../../core/bundle/pack/pack-directory.ts';
import { parsePackSettings } from '../../../core/bundle/pack/pack-settings.ts';
import { idempotencyKeyOf, type PackedBundle } from '../../../core/bundle/pack/packed-bundle.ts';
import { type Digest, finishDigest, startDigest } from '../../../core/lib/digest.ts';
import { WaybillError } from '../../../core/lib/errors.ts';
import { formatSize } from '../../../core/lib/settings/sizes-and-durations.ts';
import { plural } from '../../../core/lib/text.ts';
import { type Output } from '../../output/output.ts';
import { type ProgressBar, progressBar } from '../../output/progress.ts';
import type { Io, OptionsFor } from '../../setup/command.ts';
import { defaultNameFor, packSettings } from '../../setup/pack-flags.ts';
import { signingOptions } from '../../setup/signing-key.ts';
import { writeFile } from '../../setup/write-file.ts';
import type { packCommand } from './commands.ts';

type PackFlags = OptionsFor<typeof packCommand>;

interface PackedFiles {
  archive: { path: string; size: number; digest: Digest } | null;
  manifest: string | null;
  signature: string | null;
}

/** Implements `waybill pack`. All files are checked before anything is written. */
export async function pack(flags: PackFlags, { output }: Io): Promise<number> {
  const { directory, manifestOnly } = flags;
  const target = manifestOnly ? null : targetOf(flags);
  const naming = manifestOnly ? {} : defaultNameFor(directory);
  const options = parsePackSettings({ ...packSettings(flags), ...naming });
  const bar = progressBar(!output.isJson);
  try {
    const signing = await signingOptions(flags);
    const bundle = await packDirectory(directory, { ...options, ...signing, onBytes: bar.onBytes });
    const written =
      target === null
        ? await writeManifest(directory, bundle, flags.sign !== undefined)
        : await writeArchive(target, bundle, bar);
    bar.stop();
    printResult(directory, bundle, written, output);
    return 0;
  } finally {
    bar.stop();
  }
}

/**
 * Returns the absolute path of the archive to write, or `-`. Throws a `usage` error if it cannot be written
 * there.
 */
function targetOf({ directory, output, format }: PackFlags): string {
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

async function writeManifest(
  directory: string,
  { isNew, manifest, signature }: PackedBundle,
  signs: boolean,
): Promise<PackedFiles> {
  const file = path.join(directory, manifestName);
  const signatureFile = path.join(directory, signatureName);
  if (isNew) await writeFile(file, [manifest]);
  if (!signs || signature === null) return { archive: null, manifest: isNew ? file : null, signature: null };
  await writeFile(signatureFile, [signature]);
  return { archive: null, manifest: isNew ? file : null, signature: signatureFile };
}

async function writeArchive(target: string, bundle: PackedBundle, bar: ProgressBar): Promise<PackedFiles> {
  const bytes = bundle.open(bar.onBytes);
  const facts = await (target === '-' ? writeToStdout(bytes) : writeFile(target, bytes));
  return { archive: { path: target, ...facts }, manifest: null, signature: null };
}

function printResult(directory: string, bundle: PackedBundle, written: PackedFiles, output: Output): void {
  const { archive, manifest, signature } = written;
  const { name, created, files, bytes, contentDigest, isNew, warnings } = bundle;
  if (output.isJson) {
    output.json('pack', {
      directory,
      manifest: { isNew, written: manifest },
      signature: { isPresent: bundle.signature !== null, written: signature },
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
  if (signature !== null) output.data(`${style.green('signed')}  ${signature}`);
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
