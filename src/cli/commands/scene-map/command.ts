import { Command, InvalidArgumentError, Option } from 'commander';
import type { SceneMapIo, TranscriptFlags } from './documents.ts';
import type { ValidateFlags } from './validate.ts';

const processIo: SceneMapIo = {
  // Getters, because opening a stream takes as long as printing the help of any command.
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
 * `waybill scene-map validate | schema | render | stats`. Documents and reports go to stdout, errors to
 * stderr.
 */
export function sceneMapCommand(io: SceneMapIo = processIo): Command {
  const command = new Command('scene-map').description('check, show and count session scene maps');
  command
    .command('validate')
    .description('check scene maps against the schema and the content rules')
    .argument('<file...>', 'documents; - is standard input')
    .addOption(transcriptOption())
    .addOption(keyOption())
    .addOption(cueOption())
    .option('--schema-only', 'leave the content rules out', false)
    .addOption(
      new Option('--format <format>', 'form of the report')
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
    .description('make one self-contained HTML page of a scene map')
    .argument('<file>', 'the document; - is standard input')
    .option('-o, --output <page>', 'where to write the page; - is standard output', '-')
    .addOption(transcriptOption())
    .addOption(keyOption())
    .addOption(cueOption())
    .action(async (file: string, flags: TranscriptFlags & { output: string }) =>
      (await import('./render.ts')).renderFile(io, file, flags),
    );
  command
    .command('stats')
    .description('count scenes and segments by mode, confidence and participant')
    .argument('<file>', 'the document; - is standard input')
    .addOption(
      new Option('--format <format>', 'form of the counts').choices(['text', 'json']).default('text'),
    )
    .action(async (file: string, flags: { format: 'text' | 'json' }) =>
      (await import('./stats.ts')).countFile(io, file, flags.format),
    );
  return command;
}

function transcriptOption(): Option {
  return new Option(
    '--transcript <file>',
    'check every boundary against this transcript: JSON, JSON Lines, CSV, WebVTT or SRT',
  );
}

function keyOption(): Option {
  return new Option(
    '--segment-key <name>',
    "name of a segment's id in the transcript, besides segment_id; may be given again",
  ).argParser((name: string, names: string[] | undefined) => {
    if (name === '') throw new InvalidArgumentError('a key has a name.');
    return [...(names ?? []), name];
  });
}

function cueOption(): Option {
  return new Option(
    '--cue-ids <choice>',
    'ids of WebVTT and SRT cues: their number, their order, or the number where all have one',
  )
    .choices(['auto', 'number', 'order'])
    .default('auto');
}
