import { readFile } from 'node:fs/promises';
import path from 'node:path';
import type { DestinationConfig } from '../../../core/config/config.ts';
import { parseConfig } from '../../../core/config/load-config.ts';
import { type ErrorRecord, errorRecord, WaybillError } from '../../../core/lib/errors.ts';
import { withReleasers } from '../../../core/lib/lifecycle.ts';
import { formatSize } from '../../../core/lib/settings/sizes-and-durations.ts';
import { describeFileError } from '../../../core/lib/system-errors.ts';
import { plural } from '../../../core/lib/text.ts';
import { currentUserName } from '../../../core/lib/unsafe-path.ts';
import { type SignatureReport, verifySignatures } from '../../../core/maintain/verify-signatures.ts';
import { parsePublicKeyFile, type PublicKey } from '../../../core/signing/public-key.ts';
import { describeLocation } from '../../../core/storage/backends.ts';
import { type Output } from '../../output/output.ts';
import { type ProgressBar, progressBar } from '../../output/progress.ts';
import { homeDirectory } from '../../process/home-directory.ts';
import type { OptionsFor } from '../../setup/command.ts';
import { chooseDestinations, type CommandContext, prepare, setUp } from '../../setup/set-up.ts';
import { parseDestination } from '../publish/destination-argument.ts';
import type { verifyCommand } from './commands.ts';

type SignatureOptions = OptionsFor<typeof verifyCommand> & { signatures: string };

interface DestinationTrust {
  location: string;
  trusted: boolean;
  paths: SignatureReport[];
  error: ErrorRecord | null;
}

/**
 * Implements `waybill verify --signatures`. Checks that the files at a destination are the ones that were
 * signed.
 */
export async function verifySigned(options: SignatureOptions, output: Output): Promise<number> {
  if ((options.places.length === 0) === (options.config === undefined))
    throw new WaybillError('usage', '--signatures needs destinations: --config <file>, or paths and URLs', {
      hint: 'waybill verify PATH_OR_URL --signatures KEY, or waybill verify --config FILE --signatures KEY',
    });
  const key = await readPublicKey(options.signatures);
  const { context, warnings, destinations } = await targets(options, output);
  const bar = progressBar(!output.isJson, 'verify');
  const results: DestinationTrust[] = [];
  try {
    for (const destination of destinations) results.push(await verifyOne(context, destination, key, bar));
  } finally {
    bar.stop();
  }
  const trusted = results.every((result) => result.trusted);
  output.result('verify-signatures', { trusted, keyId: key.id, destinations: results, warnings }, () => {
    for (const result of results) print(result, key, output);
  });
  return trusted ? 0 : 1;
}

async function readPublicKey(file: string): Promise<PublicKey> {
  const bytes = await readFile(file).catch((error: unknown) => {
    throw invalid(file, describeFileError(error));
  });
  const parsed = parsePublicKeyFile(bytes);
  if (parsed.ok) return parsed.value;
  throw invalid(file, parsed.reason);
}

function invalid(file: string, reason: string): WaybillError {
  return new WaybillError('signing_key_invalid', `the public key "${file}" cannot be used: ${reason}`, {
    hint: 'name the .pub file of the key that signs the destination',
  });
}

type Targets = Pick<CommandContext, 'context' | 'warnings'> & { destinations: DestinationConfig[] };

async function targets(options: SignatureOptions, output: Output): Promise<Targets> {
  const { places, config: file, verbose, pipeline: pipelineIds } = options;
  if (file !== undefined) {
    const { config, context, warnings } = await setUp({ config: file, output, verbose, pipelineIds });
    const destinations = chooseDestinations(config, options).flatMap((chosen) => chosen.destinations);
    return { context, warnings, destinations };
  }
  const defaults = { workingDirectory: process.cwd(), userName: currentUserName(), sshKeyFile: undefined };
  const destinations = places.map((place, index) => {
    const { id, settings } = parseDestination(place, defaults);
    return { id: `${id}-${index}`, ...settings };
  });
  const document = { pipelines: [{ id: 'verified', source: { backend: 'http_upload' }, destinations }] };
  const text = Buffer.from(JSON.stringify(document));
  const loaded = parseConfig(text, path.resolve('waybill.yml'), { home: homeDirectory() });
  // The source is not used, so leave out the warnings about it.
  const used = { ...loaded, warnings: [] };
  const { config, context, warnings } = await prepare(used, { output, verbose, areDirectoriesNamed: true });
  return { context, warnings, destinations: config.pipelines.flatMap((each) => each.destinations) };
}

async function verifyOne(
  context: CommandContext['context'],
  { location, fileConcurrency: concurrency }: DestinationConfig,
  key: PublicKey,
  { onBytes }: ProgressBar,
): Promise<DestinationTrust> {
  const base = { location: describeLocation(location) };
  try {
    const paths = await withReleasers(async (onRelease) => {
      const root = await context.openStorage(location, { readOnly: true, mustExist: true });
      onRelease(() => root.close());
      return verifySignatures(root, key, { concurrency, onBytes });
    });
    const trusted = paths.length > 0 && paths.every((each) => each.error === null && isClean(each));
    return { ...base, trusted, paths, error: null };
  } catch (error) {
    return { ...base, trusted: false, paths: [], error: errorRecord(error) };
  }
}

function isClean({ distrusted }: SignatureReport): boolean {
  return distrusted.length === 0;
}

function print({ location, trusted, paths, error }: DestinationTrust, key: PublicKey, output: Output): void {
  const { data, style } = output;
  data(style.cyan(location));
  if (error !== null) output.failure('failed', error, '  ');
  for (const each of paths) {
    const sign = each.error === null && isClean(each) ? style.green('✓') : style.red('✗');
    const amount = `${plural(each.verified, 'file')}, ${formatSize(each.bytes)} read`;
    data(`  ${sign} target=${each.destinationPath}  ${amount}`);
    if (each.error !== null) output.failure('failed', each.error, '    ');
    for (const { path: name, reason } of each.distrusted) data(`    ${style.red('✗')} ${name}  ${reason}`);
  }
  data(
    trusted
      ? `${style.green('trusted')}  all outputs match the signatures of key ${key.id}`
      : `${style.red('failed')}  some outputs do not match the signatures of key ${key.id}`,
  );
}
