import type { Occurrence } from '../../../src/core/notify/event.ts';

/** A failed publication of a bundle with this name. */
export function failure(name: string, message = 'there is content that waybill does not manage'): Occurrence {
  return {
    type: 'bundle.publish_failed',
    data: {
      ...{ pipeline_id: 'maps', destination_id: 'web', destination_path: 'session-42', run_id: 'maps.run1' },
      bundle: { path: 'session-42', name, created: null },
      action: 'fail_unmanaged',
      error: { code: 'unmanaged_content', message, hint: 'check the existing files', retryable: false },
    },
  };
}
