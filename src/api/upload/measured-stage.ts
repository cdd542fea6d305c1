import type { Metrics } from '../metrics/metrics.ts';
import type { StageUpload } from './ports.ts';

/** Staging that records the bytes it reads and the bytes it extracts. */
export function measuredStage(
  stage: StageUpload,
  metrics: Pick<Metrics, 'received' | 'extracted'>,
): StageUpload {
  return async (request) => {
    const { pipelineId } = request;
    const input = measured(request.input, (bytes) => metrics.received(pipelineId, bytes));
    const staged = await stage({ ...request, input });
    metrics.extracted(pipelineId, staged.bytes);
    return staged;
  };
}

async function* measured(
  input: AsyncIterable<Uint8Array>,
  record: (bytes: number) => void,
): AsyncGenerator<Uint8Array> {
  for await (const chunk of input) {
    record(chunk.length);
    yield chunk;
  }
}
