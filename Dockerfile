# The commands of dualmctx in a container.
#
# For a CPU, and for NVIDIA GPUs (the host needs NVIDIA's driver and its container toolkit):
#
#   docker build -t dualmctx .
#   docker build -t dualmctx:gpu --build-arg EXTRAS=gpu,parquet .
#
# Runs and results go to the mounted folder; compiled programs are kept in a volume:
#
#   docker run --rm --user "$(id -u):$(id -g)" -v "$PWD:/data" -v dualmctx:/cache \
#       dualmctx train tic-tac-toe --out runs/tic-tac-toe
#
# The page of dualmctx play needs EXTRAS=parquet,web and a port; open http://localhost:8000/?token=...
# with the token that is printed:
#
#   docker run --rm -p 127.0.0.1:8000:8000 -v dualmctx:/cache dualmctx play --host 0.0.0.0
#
# For a GPU add --gpus all, and --stop-timeout 600 so that training can save when it is stopped.
ARG PYTHON=3.12

FROM python:${PYTHON}-slim-bookworm AS build
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY dualmctx dualmctx
COPY games games
RUN PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt \
    pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:${PYTHON}-slim-bookworm
# Optional dependencies, separated by commas: gpu, parquet, compare, wandb, web, zstd. May be empty.
ARG EXTRAS=parquet
COPY --from=build /wheels /wheels
COPY constraints.txt /wheels/
# The path of the wheel is a pattern, because it contains the version.
RUN pip install --no-cache-dir --constraint /wheels/constraints.txt \
        "$(echo /wheels/*.whl)${EXTRAS:+[$EXTRAS]}" \
    && rm -r /wheels \
    && mkdir --mode=1777 /cache
ENV XDG_CACHE_HOME=/cache \
    MPLCONFIGDIR=/cache/matplotlib \
    PYTHONUNBUFFERED=1
WORKDIR /data
# Any other user works as well; see --user above.
USER 1000:1000
ENTRYPOINT ["dualmctx"]
CMD ["--help"]
