import { readFile, writeFile } from 'node:fs/promises';
import type { Readable, Writable } from 'node:stream';
import { Command, InvalidArgumentError, Option } from 'commander';
import { WaybillError } from '../../../core/errors.ts';
import { describeFinding } from '../../../core/finding.ts';
import { maxDocumentBytes } from '../../../core/scene-map/limits.ts';
import type { CheckedFile } from '../../../core/scene-map/report.ts';
import type { SceneMapStats } from '../../../core/scene-map/stats.ts';
import type { Transcript, TranscriptOptions } from '../../../core/scene-map/transcript.ts';
import type { SceneMapCheck } from '../../../core/scene-map/read-scene-map.ts';

export interface SceneMapIo {
  stdin: Readable;
  stdout: Writable;
  stderr: Writable;
  /**
   * Told 0 when the command did what was asked and 1 when a document failed; what is thrown (`usage`) is the
   * caller's to map.
   */
  setExitCode: (code: number) => void;
}

type Format = 'text' | 'json' | 'sarif' | 'github';

interface TranscriptFlags {
  transcript?: string;
  segmentKey?: string[];
  cueIds: NonNullable<TranscriptOptions['cueIds']>;
}

/**
 * `waybill scene-map validate | schema | render | stats`. Documents and reports go to stdout, what goes wrong
 * to stderr.
 */
export function sceneMapCommand(io: SceneMapIo): Command {
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
    .action((files: string[], flags: TranscriptFlags & { schemaOnly: boolean; format: Format }) =>
      validateFiles(io, files, flags),
    );
  command
    .command('schema')
    .description('print the JSON Schema (2020-12)')
    .action(async () => {
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
    .action((file: string, flags: TranscriptFlags & { output: string }) => renderFile(io, file, flags));
  command
    .command('stats')
    .description('count scenes and segments by mode, confidence and participant')
    .argument('<file>', 'the document; - is standard input')
    .addOption(
      new Option('--format <format>', 'form of the counts').choices(['text', 'json']).default('text'),
    )
    .action((file: string, flags: { format: 'text' | 'json' }) => countFile(io, file, flags.format));
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

async function validateFiles(
  io: SceneMapIo,
  files: string[],
  flags: TranscriptFlags & { schemaOnly: boolean; format: Format },
): Promise<void> {
  if (files.filter((file) => file === '-').length + (flags.transcript === '-' ? 1 : 0) > 1) {
    throw new WaybillError('usage', 'Standard input is named twice and can be read once.', {
      hint: 'Give - for one document only.',
    });
  }
  const transcript = await openTranscript(io, flags);
  const checked: CheckedFile[] = [];
  for (const file of files)
    checked.push({
      file: nameOf(file),
      findings: (await check(io, file, transcript, flags.schemaOnly)).findings,
    });
  await report(io, checked, flags.format);
  io.setExitCode(checked.some(({ findings }) => findings.length > 0) ? 1 : 0);
}

async function report(io: SceneMapIo, checked: CheckedFile[], format: Format): Promise<void> {
  if (format === 'text') return print(io.stdout, textReport(checked));
  const { sceneMapReport, sarifReport, githubAnnotation } = await import('../../../core/scene-map/report.ts');
  if (format === 'github')
    return print(
      io.stdout,
      checked.flatMap(({ findings }) => findings.map((one) => `${githubAnnotation(one)}\n`)).join(''),
    );
  await printJson(io.stdout, format === 'sarif' ? sarifReport(checked) : sceneMapReport(checked));
}

function textReport(checked: readonly CheckedFile[]): string {
  const lines: string[] = [];
  for (const { file, findings } of checked) {
    for (const one of findings) lines.push(`${one.severity} ${one.code} ${describeFinding(one)}`);
    const errors = findings.filter(({ severity }) => severity === 'error').length;
    const warnings = findings.length - errors;
    if (findings.length === 0) lines.push(`${file}: valid`);
    else
      lines.push(
        `${file}: ${errors > 0 ? 'invalid' : 'valid, breaks content rules'} (${count(errors, 'error')}, ${count(warnings, 'warning')})`,
      );
  }
  return `${printable(lines.join('\n'))}\n`;
}

/** Text from documents, without what would steer a terminal. */
function printable(text: string): string {
  return text.replace(/(?![\n\u200c\u200d])[\p{Cc}\p{Cf}]/gu, '\uFFFD');
}

async function renderFile(
  io: SceneMapIo,
  file: string,
  flags: TranscriptFlags & { output: string },
): Promise<void> {
  const checked = await check(io, file, await openTranscript(io, flags), false);
  if (checked.map === null) return refuse(io, file, checked, 'No page is made of an invalid document.');
  const { renderSceneMapPage } = await import('../../../core/scene-map/page.ts');
  const page = renderSceneMapPage(checked.map, { findings: checked.findings });
  if (flags.output === '-') await print(io.stdout, page);
  else await writeOutput(flags.output, page);
  io.setExitCode(0);
}

async function countFile(io: SceneMapIo, file: string, format: 'text' | 'json'): Promise<void> {
  const checked = await check(io, file, undefined, true);
  if (checked.map === null) return refuse(io, file, checked, 'An invalid document is not counted.');
  const { sceneMapStats } = await import('../../../core/scene-map/stats.ts');
  const stats = sceneMapStats(checked.map);
  if (format === 'json') await printJson(io.stdout, stats);
  else await print(io.stdout, printable(textStats(stats)));
  io.setExitCode(0);
}

function textStats(stats: SceneMapStats): string {
  const lines = [
    `${count(stats.scenes, 'scene')} over ${count(stats.segments, 'segment')} (${stats.first_segment_id} to ${stats.last_segment_id})`,
  ];
  const table = (title: string, rows: [string, { scenes: number; segments: number }][]): void => {
    const width = Math.max(...rows.map(([name]) => name.length));
    lines.push('', title);
    for (const [name, tally] of rows)
      lines.push(
        `  ${name.padEnd(width)}  ${count(tally.scenes, 'scene')}, ${count(tally.segments, 'segment')}`,
      );
  };
  table('Modes', Object.entries(stats.modes));
  table('Boundary confidence', Object.entries(stats.confidences));
  if (stats.participants.length > 0)
    table(
      'Participants',
      stats.participants.map((one) => [one.name, one]),
    );
  if (stats.shortest !== null)
    lines.push('', `Shortest: ${stats.shortest.scene_id}, ${count(stats.shortest.segments, 'segment')}`);
  if (stats.longest !== null)
    lines.push(`Longest: ${stats.longest.scene_id}, ${count(stats.longest.segments, 'segment')}`);
  return `${lines.join('\n')}\n`;
}

async function refuse(io: SceneMapIo, file: string, checked: SceneMapCheck, why: string): Promise<void> {
  await print(io.stderr, textReport([{ file: nameOf(file), findings: checked.findings }]) + `${why}\n`);
  io.setExitCode(1);
}

async function check(
  io: SceneMapIo,
  file: string,
  transcript: Transcript | undefined,
  schemaOnly: boolean,
): Promise<SceneMapCheck> {
  const bytes = await readInput(io, file);
  const { readSceneMap } = await import('../../../core/scene-map/read-scene-map.ts');
  return readSceneMap(bytes, nameOf(file), {
    schemaOnly,
    ...(transcript === undefined ? {} : { transcript }),
  });
}

async function openTranscript(
  io: SceneMapIo,
  { transcript, segmentKey, cueIds }: TranscriptFlags,
): Promise<Transcript | undefined> {
  if (transcript === undefined) return undefined;
  const bytes = await readInput(io, transcript);
  const { readTranscript } = await import('../../../core/scene-map/transcript.ts');
  return readTranscript(bytes, nameOf(transcript), { idKeys: ['segment_id', ...(segmentKey ?? [])], cueIds });
}

async function readInput(io: SceneMapIo, file: string): Promise<Uint8Array> {
  if (file === '-') return readAll(io.stdin);
  try {
    return await readFile(file);
  } catch (error) {
    throw new WaybillError('usage', `${file} cannot be read: ${reason(error)}.`, {
      hint: 'Name a file that exists and may be read.',
      cause: error,
    });
  }
}

/**
 * Stops one chunk over the limit, so that an endless input ends; the check then says that it is too large.
 */
async function readAll(stream: Readable): Promise<Uint8Array> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of stream) {
    const bytes = Buffer.from(chunk as Uint8Array | string);
    chunks.push(bytes);
    size += bytes.length;
    if (size > maxDocumentBytes) break;
  }
  return Buffer.concat(chunks);
}

async function writeOutput(file: string, text: string): Promise<void> {
  try {
    await writeFile(file, text);
  } catch (error) {
    throw new WaybillError('usage', `${file} cannot be written: ${reason(error)}.`, {
      hint: 'Name a place that exists and may be written.',
      cause: error,
    });
  }
}

function reason(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function nameOf(file: string): string {
  return file === '-' ? '<stdin>' : file;
}

function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`;
}

async function printJson(stream: Writable, value: unknown): Promise<void> {
  await print(stream, `${JSON.stringify(value, null, 2)}\n`);
}

/** Resolves once the text has been handed on, so that an exit right after cuts nothing off. */
async function print(stream: Writable, text: string): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    stream.write(text, (error) => {
      if (error) reject(error);
      else resolve();
    });
  });
}
