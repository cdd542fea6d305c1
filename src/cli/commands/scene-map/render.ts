import { renderSceneMapPage } from '../../../core/scene-map/page.ts';
import {
  check,
  openTranscript,
  print,
  refuse,
  type SceneMapIo,
  type TranscriptFlags,
  writeOutput,
} from './documents.ts';

export async function renderFile(
  io: SceneMapIo,
  file: string,
  flags: TranscriptFlags & { output: string },
): Promise<void> {
  const checked = await check(io, file, await openTranscript(io, flags), false);
  if (checked.map === null) return refuse(io, file, checked, 'Invalid documents are not rendered.');

  const page = renderSceneMapPage(checked.map, { findings: checked.findings });
  if (flags.output === '-') await print(io.stdout, page);
  else await writeOutput(flags.output, page);
  io.setExitCode(0);
}
