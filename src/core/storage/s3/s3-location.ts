/** A bucket and a prefix, as written in the configuration file. */
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

export interface S3Location {
  backend: 's3';
  bucket: string;
  /** '', or a prefix that ends with `/`. */
  prefix: string;
  /** An absolute URL without a trailing `/`, or null for AWS. */
  endpoint: string | null;
  region: string | null;
  pathStyle: boolean;
  /**
   * The environment variables that contain the credentials. null means that the SDK looks for credentials in
   * the usual places.
   */
  credentials: { accessKeyIdEnv: string; secretAccessKeyEnv: string } | null;
}

export interface S3DestinationLocation extends S3Location {
  /** Whether a forced replacement may delete everything in the bucket. */
  allowBucketRoot: boolean;
}

export function describeS3({ bucket, prefix }: S3Location): string {
  return `s3://${bucket}/${prefix}`;
}
