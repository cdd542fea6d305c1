import { Command } from 'commander';
import { exitWith, formatOption, verboseCommand } from '../../setup/command-options.ts';
import type { FeedOptions } from './feed.ts';
import type { WeatherOptions } from './weather.ts';

export function weatherCommand(): Command {
  return verboseCommand('weather', 'serve the latest weather records of a database over HTTP')
    .option('-c, --config <file>', 'configuration file (YAML); else READER_CONFIG, else config.yml')
    .addHelpText('after', '\n`waybill-weather -config <file>` is the same as a program of its own.')
    .action(async (options: WeatherOptions) => exitWith((await import('./weather.ts')).readWeather(options)))
    .addCommand(feedCommand());
}

/** Shares `--config` and `--verbose` with the command that it belongs to. */
function feedCommand(): Command {
  return new Command('feed')
    .description('fill the weather database from files, a directory or the National Weather Service')
    .argument(
      '[paths...]',
      'files and directories to load, - for standard input; without any: what weather.feed configures',
    )
    .option('--create-tables', 'make the tables, and an embedded database, where they are not there')
    .option('--once', 'ask once for everything that is configured, then end')
    .option('--interval <duration>', 'how often to ask, instead of the intervals of the configuration')
    .option('--name <file>', 'what the file of standard input would be called', 'stdin')
    .addOption(formatOption())
    .addHelpText(
      'after',
      '\nRuns until SIGINT or SIGTERM unless there are paths or --once.\ndocs/weather-feeder.md',
    )
    .action(async (paths: string[], _: unknown, command: Command) =>
      exitWith((await import('./feed.ts')).feedWeather(paths, command.optsWithGlobals<FeedOptions>())),
    );
}
