import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { CreateBucketCommand, S3Client } from '@aws-sdk/client-s3';
import type { Test } from 'tap';
import type { S3User } from '../radosgw.ts';

/** An S3 server of another project, with an initially empty bucket. */
export interface ForeignS3 {
  version: string;
  endpoint: string;
  user: S3User;
  bucket: string;
  /** Scenarios of the storage contract that it does not pass. */
  lacks?: readonly string[];
}

export type StartS3 = (t: Pick<Test, 'teardown'>) => Promise<ForeignS3>;

/** Creates the bucket, which waybill never does. Retries while the server is starting. */
export async function withBucket(server: Omit<ForeignS3, 'bucket'>): Promise<ForeignS3> {
  const { endpoint, user } = server;
  const client = new S3Client({
    endpoint,
    region: 'us-east-1',
    forcePathStyle: true,
    credentials: user,
    maxAttempts: 20,
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
  });
  const bucket = 'maps';
  try {
    await client.send(new CreateBucketCommand({ Bucket: bucket }));
  } finally {
    client.destroy();
  }
  return { ...server, bucket };
}

/** The first line that a program prints. */
export async function firstLineOf(command: readonly string[]): Promise<string> {
  const [program = '', ...args] = command;
  const { stdout, stderr } = await promisify(execFile)(program, args);
  return (stdout || stderr).split('\n')[0]?.trim() ?? '';
}
