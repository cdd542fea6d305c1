import type { Pipeline } from '../../../client/client.ts';
import type { CommonOptions } from '../../setup/options.ts';
import { columns, makeOutput, plural, type Style } from '../../output/output.ts';
import { openClient, withRemedies } from '../../setup/remote-client.ts';
import type { RemoteFlags } from '../../setup/remote-options.ts';
import { untilStopped } from '../../process/stop-signal.ts';

export interface PipelinesFlags extends Omit<CommonOptions, 'verbose'>, RemoteFlags {}

/** `waybill pipelines`. */
export async function showPipelines(flags: PipelinesFlags): Promise<number> {
  const output = makeOutput({ json: flags.format === 'json', color: flags.color });
  return untilStopped((signal) =>
    withRemedies(flags, async () => {
      const pipelines = await (await openClient(flags, { output, signal })).pipelines();
      if (output.isJson) output.json('pipelines', { pipelines });
      else for (const line of lines(pipelines, output.style)) output.data(line);
      if (pipelines.length === 0) output.note('the token is for no pipeline');
      return 0;
    }),
  );
}

function lines(pipelines: readonly Pipeline[], style: Style): string[] {
  return columns(
    pipelines.map((pipeline) => [
      style.bold(pipeline.pipeline_id),
      `${pipeline.source.backend === 'http_upload' ? 'uploads' : pipeline.source.backend} → ${pipeline.destinations.map(({ destination_id: id }) => id).join(', ')}`,
      stateOf(pipeline, style),
      style.dim(
        pipeline.last_success === null
          ? 'nothing published yet'
          : `last success ${pipeline.last_success.finished_at}`,
      ),
    ]),
  );
}

function stateOf({ paused, running, waiting }: Pipeline, style: Style): string {
  const parts = [
    ...(paused === null ? [] : [style.yellow(`paused${paused.reason === null ? '' : `: ${paused.reason}`}`)]),
    ...(running === null ? [] : ['running']),
    ...(waiting === 0 ? [] : [`${plural(waiting, 'run')} waiting`]),
  ];
  return parts.length === 0 ? 'idle' : parts.join(', ');
}
