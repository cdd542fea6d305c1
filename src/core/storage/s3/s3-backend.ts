import type { Kinds, Settings } from '../../lib/settings/declare.ts';
import { accepted, parseEndpoint, parsePrefix } from '../../lib/settings/parse-values.ts';
import type { StorageBackend } from '../backend.ts';
import {
  describeS3,
  type S3DestinationDocument,
  type S3DestinationLocation,
  type S3Document,
  type S3Location,
} from './s3-location.ts';

export const s3Backend: StorageBackend<
  's3',
  S3Document,
  S3Location,
  S3DestinationDocument,
  S3DestinationLocation
> = {
  name: 's3',
  summary: 'A bucket on S3-compatible storage.',
  settings,
  destinationSettings: ({ boolean }) => ({
    allow_bucket_root: boolean()
      .default(false)
      .description('Allows a forced replacement without a prefix, which deletes every object in the bucket.'),
  }),
  setTogether: [['access_key_id_env', 'secret_access_key_env']],
  resolve: resolveS3,
  resolveDestination: (document) => ({ ...resolveS3(document), allowBucketRoot: document.allow_bucket_root }),
  secrets: ({ credentials }) =>
    credentials === null ? [] : [credentials.accessKeyIdEnv, credentials.secretAccessKeyEnv],
  describe: describeS3,
  place: ({ endpoint, bucket, prefix }) => ({
    container: `s3 ${endpoint ?? ''} ${bucket}`,
    root: `/${prefix}`.replace(/(?<=.)\/$/, ''),
  }),
  localPaths: () => [],
  placeSetting: 'bucket',
  destinationFault: () => null,
  fileConcurrency: { files: 32, because: 'S3 destinations' },
  protectedRoot: ({ prefix, allowBucketRoot }) =>
    prefix !== '' || allowBucketRoot
      ? null
      : {
          holder: 'the bucket',
          hint: 'give the destination a prefix, or set allow_bucket_root: true if the whole bucket is its own',
        },
  open: async (location, context, { readOnly }) => {
    const { s3Storage } = await import('./s3-storage.ts');
    return s3Storage(location, { ...context, readOnly });
  },
};

function settings({ matching, prefix, endpoint, boolean, environmentName }: Kinds): Settings {
  return {
    bucket: matching(/^(?!\.{1,2}$)[A-Za-z0-9._-]{1,255}$/, 'the name of a bucket: letters, digits and . _ -')
      .required()
      .description('Name of the bucket.')
      .example('maps'),
    prefix: prefix().default('').description('Prefix of every key, like a directory.').example('live/'),
    endpoint: endpoint()
      .description('URL of the S3-compatible server. Default: AWS.')
      .example('https://s3.example.org'),
    region: matching(/^[A-Za-z0-9._-]{1,64}$/, 'the name of a region, such as eu-central-1')
      .description('Region of the bucket. Default: the AWS SDK chooses it.')
      .example('eu-central-1'),
    path_style: boolean().description(
      'Puts the bucket in the path of URLs, not in the host name. Default: true with endpoint, else false.',
    ),
    access_key_id_env: environmentName()
      .description(
        'Environment variable, or file in secrets.directory, with the access key id. Default: the credential chain of the AWS SDK.',
      )
      .example('MAPS_KEY'),
    secret_access_key_env: environmentName()
      .description('Environment variable, or file in secrets.directory, with the secret access key.')
      .example('MAPS_SECRET'),
  };
}

function resolveS3(document: S3Document): S3Location {
  const { access_key_id_env: accessKeyIdEnv, secret_access_key_env: secretAccessKeyEnv } = document;
  return {
    backend: 's3',
    bucket: document.bucket,
    prefix: accepted(parsePrefix(document.prefix)),
    endpoint: document.endpoint === undefined ? null : accepted(parseEndpoint(document.endpoint)),
    region: document.region ?? null,
    pathStyle: document.path_style ?? document.endpoint !== undefined,
    credentials:
      accessKeyIdEnv === undefined || secretAccessKeyEnv === undefined
        ? null
        : { accessKeyIdEnv, secretAccessKeyEnv },
  };
}
