import { Command, InvalidArgumentError, Option } from 'commander';
import type { SceneMapIo, TranscriptFlags } from './documents.ts';
import type { ValidateFlags } from './validate.ts';

const processIo: SceneMapIo = {
  // These are getters because opening a stream takes as long as printing the help of a command.
  get stdin() {
    return process.stdin;
  },
  get stdout() {
    return process.stdout;
  },
  get stderr() {
    return process.stderr;
  },
  setExitCode: (code) => (process.exitCode = code),
};

/**
 * Implements `waybill scene-map` with its subcommands `validate`, `schema`, `render` and `stats`. Documents
 * and reports are written to stdout, and errors to stderr.
 */
export function sceneMapCommand(io: SceneMapIo = processIo): Command {
  const command = new Command('scene-map').description('validate, render and count session scene maps');
  command
    .command('validate')
    .description('validate scene maps against the schema and the content rules')
    .argument('<file...>', 'scene maps; - is standard input')
    .addOption(transcriptOption())
    .addOption(keyOption())
    .addOption(cueOption())
    .option('--schema-only', 'skip the content rules')
    .addOption(
      new Option('--format <format>', 'report format')
        .choices(['text', 'json', 'sarif', 'github'])
        .default('text'),
    )
    .action(async (files: string[], flags: ValidateFlags) =>
      (await import('./validate.ts')).validateFiles(io, files, flags),
    );
  command
    .command('schema')
    .description('print the JSON Schema (2020-12)')
    .action(async () => {
      const { print } = await import('./documents.ts');
      const { sceneMapSchemaText } = await import('../../../core/scene-map/schema-file.ts');
      await print(io.stdout, sceneMapSchemaText());
    });
  command
    .command('render')
    .description('render a scene map as a self-contained HTML page')
    .argument('<file>', 'scene map; - is standard input')
    .option('-o, --output <page>', 'file to write; - is standard output', '-')
    .addOption(transcriptOption())
    .addOption(keyOption())
    .addOption(cueOption())
    .action(async (file: string, flags: TranscriptFlags & { output: string }) =>
      (await import('./render.ts')).renderFile(io, file, flags),
    );
  command
    .command('stats')
    .description('count scenes and segments by mode, confidence and participant')
    .argument('<file>', 'scene map; - is standard input')
    .addOption(new Option('--format <format>', 'output format').choices(['text', 'json']).default('text'))
    .action(async (file: string, flags: { format: 'text' | 'json' }) =>
      (await import('./stats.ts')).countFile(io, file, flags.format),
    );
  return command;
}

function transcriptOption(): Option {
  return new Option(
    '--transcript <file>',
    'check every boundary against this transcript (JSON, JSON Lines, CSV, WebVTT or SRT)',
  );
}

function keyOption(): Option {
  return new Option(
    '--segment-key <name>',
    'additional name for segment_id in the transcript (repeatable)',
  ).argParser((name: string, names: string[] | undefined) => {
    if (name === '') throw new InvalidArgumentError('Enter a name.');
    return [...(names ?? []), name];
  });
}

function cueOption(): Option {
  return new Option(
    '--cue-ids <choice>',
    'ids of WebVTT and SRT cues: number, order, or auto (number if all cues have one)',
  )
    .choices(['auto', 'number', 'order'])
    .default('auto');
}
