import { homedir } from 'node:os';
import { loadConfig } from '../../../core/config/load.ts';
import { loadSecrets } from '../../../core/secrets.ts';
import { referencedSecrets } from '../../../core/config/secret-references.ts';
import { finding } from '../../../core/finding.ts';
import type { ConfiguredOptions } from '../../options.ts';
import { makeOutput, plural } from '../../output.ts';

export type CheckOptions = Pick<ConfiguredOptions, 'config' | 'format' | 'color'>;

/**
 * `waybill config check`: every error is fatal and all are reported; secrets that are missing here
 * are warnings, since they may be set on the machine that the daemon runs on.
 */
export async function checkConfig(options: CheckOptions): Promise<number> {
  const output = makeOutput({ json: options.format === 'json', color: options.color });
  const { config, warnings } = await loadConfig(options.config, { home: homedir() });
  const secrets = await loadSecrets({ directory: config.secrets.directory, env: process.env });
  const missing = referencedSecrets(config, { uploadTokens: true, notifiers: true, tracing: true })
    .filter(({ name }) => secrets.get(name) === undefined)
    .map(({ name, neededBy }) =>
      finding('warning', 'secret_missing', `${name} is not set here; ${neededBy} needs it`),
    );
  const all = [...warnings, ...secrets.warnings, ...missing];
  if (output.isJson)
    output.json('config-check', {
      valid: true,
      file: config.file,
      pipelines: config.pipelines.map(({ id }) => id),
      warnings: all,
    });
  else {
    for (const warning of all) output.warn(warning);
    output.data(
      `${output.style.green('valid')}  ${config.file}  ${plural(config.pipelines.length, 'pipeline')}`,
    );
  }
  return 0;
}

/** `waybill config schema`. */
export async function printSchema(): Promise<number> {
  const { configJsonSchema } = await import('../../../core/config/json-schema.ts');
  process.stdout.write(`${JSON.stringify(configJsonSchema(), null, 2)}\n`);
  return 0;
}
