import { readFile } from 'node:fs/promises';
import type { Readable, Writable } from 'node:stream';
import { describeFinding, WaybillError } from '../../../core/lib/errors.ts';
import { describeFileError } from '../../../core/lib/system-errors.ts';
import { plural } from '../../../core/lib/text.ts';
import { readSceneMap, type SceneMapCheck } from '../../../core/scene-map/read-scene-map.ts';
import { type CheckedFile, maxDocumentBytes } from '../../../core/scene-map/report.ts';
import type { Transcript, TranscriptOptions } from '../../../core/scene-map/transcript.ts';

export interface TranscriptFlags {
  transcript?: string;
  segmentKey?: string[];
  cueIds: NonNullable<TranscriptOptions['cueIds']>;
}

export async function check(
  io: SceneMapIo,
  file: string,
  transcript: Transcript | undefined,
  schemaOnly: boolean,
): Promise<SceneMapCheck> {
  const bytes = await readInput(io, file);
  return readSceneMap(bytes, nameOf(file), { schemaOnly, transcript });
}

export async function openTranscript(
  io: SceneMapIo,
  { transcript, segmentKey, cueIds }: TranscriptFlags,
): Promise<Transcript | undefined> {
  if (transcript === undefined) return undefined;
  const bytes = await readInput(io, transcript);
  const { readTranscript } = await import('../../../core/scene-map/transcript.ts');
  return readTranscript(bytes, nameOf(transcript), { idKeys: ['segment_id', ...(segmentKey ?? [])], cueIds });
}

export async function refuse(
  io: SceneMapIo,
  file: string,
  checked: SceneMapCheck,
  why: string,
): Promise<void> {
  await print(io.stderr, textReport([{ file: nameOf(file), findings: checked.findings }]) + `${why}\n`);
  io.setExitCode(1);
}

export function textReport(checked: readonly CheckedFile[]): string {
  const lines: string[] = [];
  for (const { file, findings } of checked) {
    for (const one of findings) lines.push(`${one.severity} ${one.code} ${describeFinding(one)}`);
    const errors = findings.filter(({ severity }) => severity === 'error').length;
    const warnings = findings.length - errors;
    if (findings.length === 0) lines.push(`${file}: valid`);
    else
      lines.push(
        `${file}: ${errors > 0 ? 'invalid' : 'valid, breaks content rules'} (${plural(errors, 'error')}, ${plural(warnings, 'warning')})`,
      );
  }
  return `${printable(lines.join('\n'))}\n`;
}

export interface SceneMapIo {
  stdin: Readable;
  stdout: Writable;
  stderr: Writable;
  /**
   * Called with 1 if a document is invalid, and with 0 otherwise. All other problems are thrown as errors.
   */
  setExitCode: (code: number) => void;
}

async function readInput(io: SceneMapIo, file: string): Promise<Uint8Array> {
  if (file === '-') return readAll(io.stdin);
  try {
    return await readFile(file);
  } catch (error) {
    throw new WaybillError('usage', `${file} cannot be read: ${describeFileError(error)}`, {
      hint: 'check the path, or write - to read standard input',
      cause: error,
    });
  }
}

/**
 * Stops as soon as the limit has been exceeded, because the input could be endless. It is then reported as
 * too large.
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

export function nameOf(file: string): string {
  return file === '-' ? '<stdin>' : file;
}

/** Replaces control characters, which could affect the terminal. */
export function printable(text: string): string {
  return text.replace(/(?![\n\u200c\u200d])[\p{Cc}\p{Cf}]/gu, '\uFFFD');
}

export async function printJson(stream: Writable, value: unknown): Promise<void> {
  await print(stream, `${JSON.stringify(value, null, 2)}\n`);
}

/** Waits until the text has been written, so that it is not cut off if the process exits right afterwards. */
export async function print(stream: Writable, text: string): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    stream.write(text, (error) => {
      if (error) reject(error);
      else resolve();
    });
  });
}
