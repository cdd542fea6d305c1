/** A prefix of a bucket, as the configuration file has it. */
export interface S3Document {
  backend: 's3';
  bucket: string;
  prefix: string;
  endpoint?: string;
  region?: string;
  path_style?: boolean;
  access_key_id_env?: string;
  secret_access_key_env?: string;
}

export interface S3DestinationDocument extends S3Document {
  allow_bucket_root: boolean;
}

/** A prefix of a bucket. */
export interface S3Location {
  backend: 's3';
  bucket: string;
  /** '' or ends with `/`. */
  prefix: string;
  /** Absolute URL without a closing `/`; null for AWS. */
  endpoint: string | null;
  region: string | null;
  pathStyle: boolean;
  /** Names of the variables that hold them; null: the default credential chain of the S3 client. */
  credentials: { accessKeyIdEnv: string; secretAccessKeyEnv: string } | null;
}

export interface S3DestinationLocation extends S3Location {
  /** A forced replacement may empty the whole bucket. */
  allowBucketRoot: boolean;
}

export function describeS3({ bucket, prefix }: S3Location): string {
  return `s3://${bucket}/${prefix}`;
}
