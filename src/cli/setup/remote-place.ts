import type { Client, Pipeline } from '../../client/client.ts';
import { hasCode, WaybillError } from '../../core/lib/errors.ts';
import { nearest } from '../../core/lib/text.ts';

/*
 * The pipeline and the destination that a command for a daemon means if its options do not name them.
 */

/**
 * Returns the pipeline of `--pipeline`, or the only one of the token. Throws `usage` if there is none or
 * several, and the client's errors.
 */
export async function pipelineOfToken(client: Client, named: string | undefined): Promise<string> {
  if (named !== undefined) return named;
  const ids = (await listed(client, '--pipeline')).map(({ pipeline_id: id }) => id);
  const [only, ...others] = ids;
  if (only !== undefined && others.length === 0) return only;
  throw new WaybillError(
    'usage',
    only === undefined
      ? 'the token is for no pipeline'
      : `the token is for ${ids.length} pipelines: name one with --pipeline`,
    { hint: only === undefined ? 'use a token that lists a pipeline' : `--pipeline ${ids.join(' | ')}` },
  );
}

/**
 * Returns the destination of `--destination`, or the only one of the pipeline that has releases. If none has,
 * returns the first one, so that the daemon explains it. Throws `usage` if there are several.
 */
export async function destinationWithReleases(
  client: Client,
  pipeline: string,
  named: string | undefined,
): Promise<string> {
  if (named !== undefined) return named;
  const pipelines = await listed(client, '--destination');
  const found = pipelines.find(({ pipeline_id: id }) => id === pipeline);
  if (found === undefined) {
    const known = pipelines.map(({ pipeline_id: id }) => id);
    const closest = nearest(pipeline, known);
    const guess = closest === undefined ? '' : `; did you mean "${closest}"?`;
    throw new WaybillError('pipeline_not_found', `the token has no pipeline "${pipeline}"${guess}`, {
      hint: 'list the pipelines of the token',
    });
  }
  const ids = found.destinations
    .filter(({ layout }) => layout === 'releases')
    .map(({ destination_id: id }) => id);
  const [only = found.destinations[0]?.destination_id ?? '', ...others] = ids;
  if (others.length === 0) return only;
  throw new WaybillError('usage', `pipeline "${pipeline}" has several destinations with releases: name one`, {
    hint: `--destination ${ids.join(' | ')}`,
  });
}

/** Lists the pipelines of the token. If the token cannot list them, the error names the option to add. */
async function listed(client: Client, option: string): Promise<Pipeline[]> {
  try {
    return await client.pipelines();
  } catch (error) {
    if (!hasCode(error, 'insufficient_scope')) throw error;
    throw new WaybillError('usage', `${option} is missing, and the token may not list the pipelines`, {
      hint: `add ${option} ID, or use a token with the scope read`,
      cause: error,
    });
  }
}
