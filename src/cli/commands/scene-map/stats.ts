import { plural } from '../../../core/lib/text.ts';
import { type SceneMapStats, sceneMapStats } from '../../../core/scene-map/stats.ts';
import { check, print, printable, printJson, refuse, type SceneMapIo } from './documents.ts';

export async function countFile(io: SceneMapIo, file: string, format: 'text' | 'json'): Promise<void> {
  const checked = await check(io, file, undefined, true);
  if (checked.map === null) return refuse(io, file, checked, 'Invalid documents are not counted.');
  const stats = sceneMapStats(checked.map);
  if (format === 'json') await printJson(io.stdout, { kind: 'scene-map-stats', ...stats });
  else await print(io.stdout, printable(textStats(stats)));
  io.setExitCode(0);
}

function textStats(stats: SceneMapStats): string {
  const lines = [
    `${plural(stats.scenes, 'scene')} over ${plural(stats.segments, 'segment')} (${stats.first_segment_id} to ${stats.last_segment_id})`,
  ];
  const table = (title: string, rows: [string, { scenes: number; segments: number }][]): void => {
    const width = Math.max(...rows.map(([name]) => name.length));
    lines.push('', title);
    for (const [name, tally] of rows)
      lines.push(
        `  ${name.padEnd(width)}  ${plural(tally.scenes, 'scene')}, ${plural(tally.segments, 'segment')}`,
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
    lines.push('', `Shortest: ${stats.shortest.scene_id}, ${plural(stats.shortest.segments, 'segment')}`);
  if (stats.longest !== null)
    lines.push(`Longest: ${stats.longest.scene_id}, ${plural(stats.longest.segments, 'segment')}`);
  return `${lines.join('\n')}\n`;
}
