import { renderSceneMapPage } from '../../../core/scene-map/page.ts';
import { refuseToReplaceInput, writeFile } from '../../setup/write-file.ts';
import { check, openTranscript, print, refuse, type SceneMapIo, type TranscriptFlags } from './documents.ts';

export async function renderFile(
  io: SceneMapIo,
  file: string,
  flags: TranscriptFlags & { output: string },
): Promise<void> {
  await refuseToReplaceInput(flags.output, [
    file,
    ...(flags.transcript === undefined ? [] : [flags.transcript]),
  ]);
  const checked = await check(io, file, await openTranscript(io, flags), false);
  if (checked.map === null) return refuse(io, file, checked, 'Invalid documents are not rendered.');

  const page = renderSceneMapPage(checked.map, { findings: checked.findings });
  if (flags.output === '-') await print(io.stdout, page);
  else await writeFile(flags.output, [Buffer.from(page)]);
  io.setExitCode(0);
}
