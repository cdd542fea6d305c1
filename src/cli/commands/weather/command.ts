import type { Command } from 'commander';
import { exitWith, verboseCommand } from '../../command-options.ts';
import type { WeatherOptions } from './weather.ts';

export function weatherCommand(): Command {
  return verboseCommand('weather', 'serve the latest weather records of a database over HTTP')
    .option('-c, --config <file>', 'configuration file (YAML); else READER_CONFIG, else config.yml')
    .addHelpText('after', '\n`waybill-weather -config <file>` is the same as a program of its own.')
    .action(async (options: WeatherOptions) => exitWith((await import('./weather.ts')).readWeather(options)));
}
