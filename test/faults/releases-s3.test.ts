import t from 'tap';
import { startRadosgw } from '../services/radosgw.ts';
import { walkReleasesOn } from './releases-on-server.ts';
import { s3Worlds } from './server-worlds.ts';

/** On radosgw. */
const radosgw = await startRadosgw(t);
walkReleasesOn('S3', await s3Worlds(t, radosgw, { bucket: await radosgw.newBucket() }));
