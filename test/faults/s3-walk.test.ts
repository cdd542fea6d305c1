import { ListMultipartUploadsCommand } from '@aws-sdk/client-s3';
import t from 'tap';
import { startRadosgw } from '../services/radosgw.ts';
import { type Case, walkCases } from '../support/sampling.ts';
import { casesOnServer } from './server-cases.ts';
import { s3Worlds } from './server-worlds.ts';
import { hasSteps, stepsOfObjects } from './steps.ts';
import type { World } from './world.ts';

/** Faults, freezes and releases on radosgw; a replacement uploads parts of one byte. */
const server = await startRadosgw(t);
const bucket = await server.newBucket();
const cases: Case[] = [];

t.test('S3, without faults', async (test) => {
  const inParts = await s3Worlds(t, server, { bucket, partBytes: 1 });
  const whole = await s3Worlds(t, server, { bucket });
  const newWorld = (action: string): World => (action === 'replace_catalog' ? inParts() : whole());
  const worlds = { where: 'S3', newWorld, hasDirectories: false, hasReleases: true };
  cases.push(...(await casesOnServer(test, worlds)));
});

t.test('after every fault or freeze, the next run repairs everything', async (t) => {
  const strata = await walkCases(t, cases, { what: 'fault points and freezes (S3)', concurrency: 6 });
  hasSteps(t, strata, 'S3', stepsOfObjects);
  const { Uploads } = await server.client().send(new ListMultipartUploadsCommand({ Bucket: bucket }));
  t.same(Uploads ?? [], [], 'no multipart upload is left');
});
