import { stat } from 'node:fs/promises';
import path from 'node:path';
import {
  type BundleCandidate,
  type BundleSource,
  discoverBundles,
  loadBundle,
} from '../../../core/bundle/discover.ts';
import { validateBundle } from '../../../core/bundle/validate-bundle.ts';
import type { DestinationConfig } from '../../../core/config/config.ts';
import { describeFinding, type Finding, WaybillError } from '../../../core/lib/errors.ts';
import { formatSize } from '../../../core/lib/settings/sizes-and-durations.ts';
import { plural } from '../../../core/lib/text.ts';
import { chooseOutputs } from '../../../core/outputs/generator.ts';
import { findBundles, openSource, readableSource } from '../../../core/publish/find-bundles.ts';
import { isBundleError } from '../../../core/publish/select-bundles.ts';
import { localStorage } from '../../../core/storage/local/local-storage.ts';
import type { Storage } from '../../../core/storage/storage.ts';
import { type Output } from '../../output/output.ts';
import { type ProgressBar, progressBar } from '../../output/progress.ts';
import type { Io, OptionsFor } from '../../setup/command.ts';
import { setUpPipeline } from '../../setup/set-up.ts';
import type { validateCommand } from './commands.ts';

type ValidateBundleFlags = OptionsFor<typeof validateCommand>;

interface BundleReport {
  bundle: string;
  valid: boolean;
  files: number;
  bytes: number;
  findings: readonly Finding[];
}

/**
 * Implements `waybill validate`. Validates a directory, or all bundles of a configured source. All files are
 * read to check their digests. With `--listing-only`, it only reads manifests, scene maps and, for a remote
 * source, the list of files.
 */
export async function validate(options: ValidateBundleFlags, { output }: Io): Promise<number> {
  const { bundlePath } = options;
  const bar = progressBar(!output.isJson);
  try {
    const { reports, warnings, filesRead } =
      bundlePath === undefined
        ? await ofSource(options, output, bar)
        : await ofDirectory(bundlePath, options, bar);
    bar.stop();
    const valid = reports.every((report) => report.valid) && reports.length > 0;
    const document = { valid, files_read: filesRead, bundles: reports, warnings };
    output.result('validate', document, () => print({ reports, filesRead }, bundlePath ?? '.', output));
    return valid ? 0 : 1;
  } finally {
    bar.stop();
  }
}

interface Validation {
  reports: BundleReport[];
  warnings: readonly Finding[];
  /** Whether all files were read, or only manifests and scene maps. */
  filesRead: boolean;
}

async function ofDirectory(
  bundlePath: string,
  options: ValidateBundleFlags,
  bar: ProgressBar,
): Promise<Validation> {
  if (options.config !== undefined || options.pipeline !== undefined)
    throw new WaybillError('usage', 'a bundle path cannot be used with --config or --pipeline', {
      hint: 'waybill validate BUNDLE, or waybill validate --config FILE',
    });
  const found = bundlePath === '' ? null : await stat(bundlePath).catch(() => null);
  if (bundlePath !== '' && found === null)
    throw new WaybillError('bundle_not_found', `"${bundlePath}" does not exist`, {
      hint: 'check the path of the bundle',
    });
  if (found?.isDirectory() !== true)
    throw new WaybillError('bundle_not_found', `"${bundlePath}" is not a directory`, {
      hint: 'name the directory that holds the manifest; waybill pack --manifest-only DIRECTORY writes one',
    });
  const storage = await localStorage(path.resolve(bundlePath), { readOnly: true, mustExist: true });
  const { candidates, invalid, warnings } = await discoverBundles(storage);
  const root = candidates.filter((candidate) => candidate.path === '.');
  const broken = invalid.filter((bundle) => bundle.path === '.');
  if (root.length + broken.length === 0)
    throw new WaybillError('bundle_not_found', `"${bundlePath}" has no manifest.json`, {
      hint:
        candidates.length > 0
          ? `bundles lie below it: ${candidates
              .slice(0, 5)
              .map((candidate) => candidate.path)
              .join(', ')}`
          : 'name the directory that holds the manifest; waybill pack --manifest-only DIRECTORY writes one',
    });
  const identity = { backend: 'local', id: path.resolve(bundlePath) } as const;
  return check(storage, { candidates: root, invalid: broken, warnings }, identity, { bar, filesRead: true });
}

async function ofSource(options: ValidateBundleFlags, output: Output, bar: ProgressBar): Promise<Validation> {
  const { config, pipeline: named, verbose } = options;
  if (config === undefined)
    throw new WaybillError('usage', 'missing argument <bundle>: the directory with the manifest.json', {
      hint: 'waybill validate BUNDLE, or waybill validate --config FILE',
    });
  const flags = { config, pipeline: named, verbose };
  const { context, warnings, pipeline } = await setUpPipeline(flags, { output });
  const source = readableSource(pipeline);
  const storage = await openSource(context, { ...pipeline, source }, { dryRun: true });
  try {
    const found = await findBundles(context, storage, pipeline, { dryRun: false });
    const { sourceId: id, sceneMaps, signatures } = pipeline;
    const identity = { backend: source.backend, id, sceneMaps, signatures };
    const filesRead = source.backend === 'local' || !options.listingOnly;
    const all = { ...found, warnings: [...warnings, ...found.warnings] };
    return await check(storage, all, identity, { bar, filesRead, destinations: pipeline.destinations });
  } finally {
    await storage.close();
  }
}

interface CheckedBundles {
  candidates: readonly BundleCandidate[];
  invalid: readonly { path: string; error: WaybillError }[];
  warnings: readonly Finding[];
}

interface BundleCheckOptions {
  bar: ProgressBar;
  filesRead: boolean;
  /** Destinations that generate outputs. No file may have the same name as one of these. */
  destinations?: readonly DestinationConfig[];
}

async function check(
  storage: Storage,
  { candidates, invalid, warnings }: CheckedBundles,
  source: BundleSource,
  { bar: { onBytes }, filesRead, destinations = [] }: BundleCheckOptions,
): Promise<Validation> {
  const reports = invalid.map(({ path: bundle, error }) => broken(bundle, error));
  for (const candidate of candidates) {
    try {
      const bundle = await loadBundle(storage, candidate, source);
      const findings = [
        ...bundle.warnings,
        ...destinations.flatMap((destination) => chooseOutputs(bundle, destination).conflicts),
        ...(await validateBundle(bundle, {
          onBytes,
          contents: filesRead ? 'all' : 'scene_maps',
          sceneMaps: source.sceneMaps,
        })),
      ];
      reports.push({
        bundle: bundle.path,
        valid: findings.every(({ severity }) => severity !== 'error'),
        files: bundle.files.length,
        bytes: bundle.files.reduce((sum, { size }) => sum + size, 0),
        findings,
      });
    } catch (error) {
      if (!isBundleError(error)) throw error;
      reports.push(broken(candidate.path, error));
    }
  }
  reports.sort((a, b) => (a.bundle < b.bundle ? -1 : 1));
  return { reports, warnings, filesRead };
}

function broken(bundle: string, error: WaybillError): BundleReport {
  return { bundle, valid: false, files: 0, bytes: 0, findings: error.findings };
}

/** `root` is the name of the bundle at the root of the source. */
function print({ reports, filesRead }: Omit<Validation, 'warnings'>, root: string, output: Output): void {
  const { style } = output;
  for (const { bundle, valid, files, bytes, findings } of reports) {
    const detail = files === 0 ? '' : `  ${plural(files, 'file')}, ${formatSize(bytes)}`;
    output.data(
      `${valid ? style.green('valid  ') : style.red('invalid')}  ${bundle === '.' ? root : bundle}${detail}`,
    );
    for (const finding of findings)
      output.data(
        `  ${finding.severity === 'error' ? style.red('error  ') : style.yellow('warning')}  ${describeFinding(finding)}`,
      );
  }
  const bad = reports.filter(({ valid }) => !valid).length;
  const files = reports.reduce((sum, report) => sum + report.files, 0);
  const bytes = reports.reduce((sum, report) => sum + report.bytes, 0);
  const amount = style.dim(`${plural(files, 'file')}, ${formatSize(bytes)}`);
  if (reports.length === 0)
    output.data(
      `${style.red('failed')}  the source has no bundle, because no directory in it has a manifest.json`,
    );
  else
    output.data(
      bad === 0
        ? `${style.green('done')}  ${plural(reports.length, 'bundle')} valid  ${amount}`
        : `${style.red('failed')}  ${bad} of ${plural(reports.length, 'bundle')} invalid  ${amount}`,
    );
  if (!filesRead && reports.length > 0)
    output.data(style.dim('their files were listed and not read; without --listing-only every byte is'));
}
