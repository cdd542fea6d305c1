import path from 'node:path';
import type { Digest } from '../../../core/lib/digest.ts';
import { WaybillError } from '../../../core/lib/errors.ts';
import { manifestName } from '../../../core/bundle/manifest.ts';
import { packDirectory } from '../../../core/bundle/pack/pack-directory.ts';
import { parsePackSettings } from '../../../core/bundle/pack/pack-settings.ts';
import { idempotencyKeyOf, type PackedBundle } from '../../../core/bundle/pack/packed-bundle.ts';
import { formatSize } from '../../../core/lib/settings/units.ts';
import type { BundleFlags } from '../../setup/bundle-options.ts';
import { namedAfter, packSettings } from '../../setup/pack-settings.ts';
import type { CommonOptions } from '../../setup/options.ts';
import { makeOutput, plural, type Output } from '../../output/output.ts';
import { progressBar, type ProgressBar } from '../../output/progress.ts';
import { endedBySignal } from '../../process/stop-signal.ts';
import { writeBytes, writeToStdout } from './write-file.ts';

export interface PackFlags extends Omit<CommonOptions, 'verbose'>, BundleFlags {
  output?: string;
  manifestOnly: boolean;
}

/** What was written beside the facts of the bundle. */
interface Written {
  archive: { path: string; size: number; digest: Digest } | null;
  manifest: string | null;
}

/** `waybill pack`. Nothing is written before every file was found to be fit for a bundle. */
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

/** Where the archive goes: absolute, or `-`. Throws `usage` where it cannot go. */
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
    throw new WaybillError('usage', `the archive "${target}" would lie in what it is made of`, {
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
