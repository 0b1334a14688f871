"""The account to deploy into: clients, the bucket of the releases, what a person at the terminal is asked."""

import base64
import dataclasses
import functools
import hashlib
import json
import sys

from . import DeployError


@dataclasses.dataclass
class Account:
    """A session in one account and region, with whatever credentials the AWS SDK finds."""

    session: object
    pause: float = 5
    clients: dict = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, region, pause=5):
        """Takes the credentials from where every AWS tool takes them."""
        import boto3

        return cls(boto3.Session(region_name=region), pause)

    def client(self, service):
        """A client, made once."""
        if service not in self.clients:
            self.clients[service] = self.session.client(service)
        return self.clients[service]

    @functools.cached_property
    def caller(self):
        """Who this is, as STS tells it."""
        return self.client("sts").get_caller_identity()

    @property
    def number(self):
        """The account's twelve digits."""
        return self.caller["Account"]

    @property
    def region(self):
        """The region."""
        return self.session.region_name

    @property
    def partition(self):
        """`aws`, or what stands in its place."""
        return self.caller["Arn"].split(":")[1]

    def code_bucket(self, stack):
        """The bucket of a gate's releases, made if it is not there: versioned, closed to the public, reached by TLS alone."""
        s3, name = self.client("s3"), f"{stack}-code-{self.number}-{self.region}"
        try:
            s3.head_bucket(Bucket=name, ExpectedBucketOwner=self.number)
            return name
        except s3.exceptions.ClientError as error:
            if error.response["Error"]["Code"] not in ("404", "NoSuchBucket", "NotFound"):
                raise DeployError(f"the bucket {name} cannot be used: {error}") from None
        where = {} if self.region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": self.region}}
        s3.create_bucket(Bucket=name, **where)
        s3.put_public_access_block(Bucket=name, PublicAccessBlockConfiguration={
            "BlockPublicAcls": True, "IgnorePublicAcls": True, "BlockPublicPolicy": True, "RestrictPublicBuckets": True})
        s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
        tls = {"Sid": "TlsOnly", "Effect": "Deny", "Principal": "*", "Action": "s3:*", "Condition": {"Bool": {"aws:SecureTransport": "false"}},
               "Resource": [f"arn:{self.partition}:s3:::{name}", f"arn:{self.partition}:s3:::{name}/*"]}
        s3.put_bucket_policy(Bucket=name, Policy=json.dumps({"Version": "2012-10-17", "Statement": [tls]}))
        return name

    def upload(self, bucket, key, path):
        """Puts a file under a key that is its alone; a DeployError if something else stands there. Gives whether it was put."""
        s3, content = self.client("s3"), path.read_bytes()
        checksum = base64.b64encode(hashlib.sha256(content).digest()).decode()
        try:
            # What S3 knows of it is enough: a release that is there already does not travel again.
            if s3.head_object(Bucket=bucket, Key=key, ChecksumMode="ENABLED").get("ChecksumSHA256") == checksum:
                return False
        except s3.exceptions.ClientError as error:
            if error.response["Error"]["Code"] not in ("404", "403", "NoSuchKey", "NotFound", "Forbidden"):
                raise
        try:
            s3.put_object(Bucket=bucket, Key=key, Body=content, IfNoneMatch="*", ChecksumSHA256=checksum)
            return True
        except s3.exceptions.ClientError as error:
            if error.response["Error"]["Code"] not in ("PreconditionFailed", "412"):
                raise
        if hashlib.sha256(s3.get_object(Bucket=bucket, Key=key)["Body"].read()).digest() != hashlib.sha256(content).digest():
            raise DeployError(f"s3://{bucket}/{key} is another file than {path}; a release is never overwritten: find out who put it there")
        return False

    def url(self, bucket, key):
        """Where CloudFormation reads an object."""
        return f"{self.client('s3').meta.endpoint_url}/{bucket}/{key}"


def say(line=""):
    """Tells a person how it goes."""
    print(line, flush=True)


def agreed(question, assent):
    """Asks at the terminal for the word `assent`; a DeployError where nobody is there to be asked."""
    if not sys.stdin.isatty():
        raise DeployError(f"{question} Nobody is there to be asked: say so with an option")
    return input(f"{question} Type {assent}: ").strip() == assent
