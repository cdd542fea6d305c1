import type { Config } from '../../core/config/config.ts';

/** What one token may have at a time. */
export interface Quotas {
  /** Archives that it is sending. */
  uploads: number;
  partialUploads: { maxUploadsPerToken: number; maxBytesPerToken: number };
}

/** By default, one of several tokens leaves half of everything to the others. Pure. */
export function quotasOf({ server: { http, resumable }, uploadTokens }: Config): Quotas {
  const shareOf = (total: number): number => (uploadTokens.length > 1 ? Math.ceil(total / 2) : total);
  return {
    uploads: http.maxUploadsPerToken ?? shareOf(http.queueSize),
    partialUploads: {
      maxUploadsPerToken: resumable.maxUploadsPerToken ?? shareOf(resumable.maxUploads),
      maxBytesPerToken: resumable.maxBytesPerToken ?? shareOf(resumable.maxBytes),
    },
  };
}
