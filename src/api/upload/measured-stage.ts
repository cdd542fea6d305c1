import type { Metrics } from '../metrics/metrics.ts';
import type { StageUpload } from '../ports.ts';

/** Staging with the bytes that it reads and the bytes that it extracts counted. */
export function countingStage(
  stage: StageUpload,
  metrics: Pick<Metrics, 'received' | 'extracted'>,
): StageUpload {
  return async (request) => {
    const { pipelineId } = request;
    const input = counted(request.input, (bytes) => metrics.received(pipelineId, bytes));
    const staged = await stage({ ...request, input });
    metrics.extracted(pipelineId, staged.bytes);
    return staged;
  };
}

async function* counted(
  input: AsyncIterable<Uint8Array>,
  count: (bytes: number) => void,
): AsyncGenerator<Uint8Array> {
  for await (const chunk of input) {
    count(chunk.length);
    yield chunk;
  }
}
