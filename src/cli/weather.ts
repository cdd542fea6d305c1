#!/usr/bin/env node
import './process/refuse-platform.ts';
import { parseArgs } from 'node:util';
import { errorMessage } from '../core/lib/errors.ts';
import { singleDashConfig } from './setup/command-options.ts';

/** The entry point of `waybill-weather`, the standalone weather reader. */

const usage = `usage: waybill-weather [-config <file>] [--verbose]

Serves the latest weather records of a database over HTTP.

  -config, --config <file>  configuration file (YAML); else READER_CONFIG, else config.yml
  --verbose                 log in detail
  -h, --help                print this
`;

void main();

async function main(): Promise<void> {
  let options;
  try {
    options = parseArgs({
      args: singleDashConfig(process.argv.slice(2)),
      options: {
        config: { type: 'string', short: 'c' },
        verbose: { type: 'boolean', default: false },
        help: { type: 'boolean', short: 'h', default: false },
      },
    }).values;
  } catch (error) {
    process.stderr.write(`error  ${errorMessage(error)}\n${usage}`);
    process.exitCode = 2;
    return;
  }
  const { config, verbose, help } = options;
  if (help) {
    process.stdout.write(usage);
    return;
  }
  const { readWeather } = await import('./commands/weather/read-weather.ts');
  process.exitCode = await readWeather({ verbose, config });
}
