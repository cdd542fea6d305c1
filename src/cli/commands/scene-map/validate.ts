import { WaybillError } from '../../../core/lib/errors.ts';
import type { CheckedFile } from '../../../core/scene-map/report.ts';
import {
  check,
  nameOf,
  openTranscript,
  print,
  printJson,
  type SceneMapIo,
  textReport,
  type TranscriptFlags,
} from './documents.ts';

export type ValidateFlags = TranscriptFlags & {
  schemaOnly: boolean;
  format: 'text' | 'json' | 'sarif' | 'github';
};

export async function validateFiles(io: SceneMapIo, files: string[], flags: ValidateFlags): Promise<void> {
  if (files.filter((file) => file === '-').length + (flags.transcript === '-' ? 1 : 0) > 1) {
    throw new WaybillError('usage', 'standard input is named twice', {
      hint: 'use - for only one document',
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

async function report(
  io: SceneMapIo,
  checked: CheckedFile[],
  format: ValidateFlags['format'],
): Promise<void> {
  if (format === 'text') {
    const isInvalid = checked.some(({ findings }) => findings.some(({ severity }) => severity === 'error'));
    const next = 'next  fix these places; waybill scene-map schema prints every property and its values\n';
    return print(io.stdout, textReport(checked) + (isInvalid ? next : ''));
  }
  const { sceneMapReport, sarifReport, githubAnnotation } = await import('../../../core/scene-map/report.ts');
  if (format === 'github')
    return print(
      io.stdout,
      checked.flatMap(({ findings }) => findings.map((one) => `${githubAnnotation(one)}\n`)).join(''),
    );
  await printJson(
    io.stdout,
    format === 'sarif' ? sarifReport(checked) : { kind: 'scene-map-validate', ...sceneMapReport(checked) },
  );
}
