import { defaulted, described, flag, optional, rest } from '../../setup/command.ts';
import { format, verbose } from '../../setup/command-options.ts';

const shared = {
  verbose,
  config: optional(
    '-c, --config <file>',
    'configuration file (YAML; default: READER_CONFIG, else config.yml)',
  ),
};

export const weatherCommand = described({
  name: 'weather',
  about: 'serve the latest weather records of a database over HTTP',
  signals: 'own',
  inputs: shared,
  help: 'The program `waybill-weather -config <file>` does the same.',
});

const ofFeed = {
  paths: rest(
    '[paths...]',
    'files and directories to load, - for standard input (default: the sources of weather.feed)',
  ),
  createTables: flag('--create-tables', 'create missing tables, and a missing embedded database'),
  once: flag('--once', 'request everything once, then exit'),
  interval: optional(
    '--interval <duration>',
    'interval between requests, instead of the configured intervals',
  ),
  name: defaulted('--name <file>', 'file name for standard input', 'stdin'),
  format,
};

/** `--config` and `--verbose` belong to the parent command. */
type FeedInputs = typeof ofFeed & typeof shared;

export const feedCommand = described({
  name: 'feed',
  about: 'fill the weather database from files, a directory or the National Weather Service',
  signals: ({ paths, once }) => (paths.length > 0 || once ? 'abort' : 'own'),
  inputs: ofFeed as FeedInputs,
  help: 'Runs until SIGINT or SIGTERM unless there are paths or --once.\nSee docs/weather-feeder.md.',
});
