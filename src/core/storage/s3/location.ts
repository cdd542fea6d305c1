/** A prefix of a bucket, as written in the configuration file. */
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
  /** Either '' or a prefix that ends with `/`. */
  prefix: string;
  /** Absolute URL without a trailing `/`, or null for AWS. */
  endpoint: string | null;
  region: string | null;
  pathStyle: boolean;
  /**
   * Names of the variables that hold the credentials. If null, the SDK's default credential chain is used.
   */
  credentials: { accessKeyIdEnv: string; secretAccessKeyEnv: string } | null;
}

export interface S3DestinationLocation extends S3Location {
  /** Whether a forced replacement may empty the whole bucket. */
  allowBucketRoot: boolean;
}

export function describeS3({ bucket, prefix }: S3Location): string {
  return `s3://${bucket}/${prefix}`;
}
