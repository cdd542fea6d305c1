import { Command } from 'commander';
import { exitWith, formatOption, verboseCommand } from '../../setup/command-options.ts';
import type { FeedOptions } from './feed.ts';
import type { WeatherOptions } from './weather.ts';

export function weatherCommand(): Command {
  return verboseCommand('weather', 'serve the latest weather records of a database over HTTP')
    .option('-c, --config <file>', 'configuration file (YAML; default: READER_CONFIG, else config.yml)')
    .addHelpText('after', '\nThe program `waybill-weather -config <file>` does the same.')
    .action(async (options: WeatherOptions) => exitWith((await import('./weather.ts')).readWeather(options)))
    .addCommand(feedCommand());
}

/** Shares `--config` and `--verbose` with the command that it belongs to. */
function feedCommand(): Command {
  return new Command('feed')
    .description('fill the weather database from files, a directory or the National Weather Service')
    .argument(
      '[paths...]',
      'files and directories to load, - for standard input (default: the sources of weather.feed)',
    )
    .option('--create-tables', 'create missing tables, and a missing embedded database')
    .option('--once', 'request everything once, then exit')
    .option('--interval <duration>', 'interval between requests, instead of the configured intervals')
    .option('--name <file>', 'file name for standard input', 'stdin')
    .addOption(formatOption())
    .addHelpText(
      'after',
      '\nRuns until SIGINT or SIGTERM unless there are paths or --once.\ndocs/weather-feeder.md',
    )
    .action(async (paths: string[], _: unknown, command: Command) =>
      exitWith((await import('./feed.ts')).feedWeather(paths, command.optsWithGlobals<FeedOptions>())),
    );
}
