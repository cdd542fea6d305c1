import { describeFinding } from '../../../core/lib/errors.ts';
import type { CheckedFile } from '../../../core/scene-map/report.ts';
import type { Transcript, TranscriptOptions } from '../../../core/scene-map/transcript.ts';
import { readSceneMap, type SceneMapCheck } from '../../../core/scene-map/read-scene-map.ts';
import { count, nameOf, print, printable, readInput, type SceneMapIo } from './io.ts';

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
  return readSceneMap(bytes, nameOf(file), {
    schemaOnly,
    ...(transcript === undefined ? {} : { transcript }),
  });
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
        `${file}: ${errors > 0 ? 'invalid' : 'valid, breaks content rules'} (${count(errors, 'error')}, ${count(warnings, 'warning')})`,
      );
  }
  return `${printable(lines.join('\n'))}\n`;
}
