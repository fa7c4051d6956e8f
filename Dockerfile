# kgqa as a server, without a GPU:
#   docker build -t kgqa .
#   docker build -t kgqa --build-arg KIND=light .    # without a language model: rank, query, auto
#   docker run -e KGQA_API_KEY=… -p 127.0.0.1:8080:8080 -v kgqa-data:/data kgqa
# It has not been run by a Docker engine; scripts/image_env, which does the work, has.
ARG PYTHON=3.11.13-slim-bookworm@sha256:86adf8dbadc3d6e82ee5dd2c74bec2e1c2467cdad47886280501df722372d2e1
FROM python:${PYTHON} AS build
RUN pip install --no-cache-dir uv==0.13.9
COPY . /src
ARG KIND=full
RUN /src/scripts/image_env /opt/kgqa "${KIND}"

FROM python:${PYTHON}
COPY --from=build /opt/kgqa /opt/kgqa
RUN useradd --create-home --uid 10001 kgqa && install -d -o kgqa /data
USER kgqa
ENV PATH=/opt/kgqa/bin:$PATH KGQA_HOME=/data HF_HUB_OFFLINE=1
VOLUME /data
EXPOSE 8080
HEALTHCHECK --start-period=60s CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8080/health')"]
# an address that others reach needs KGQA_API_KEY to be set
ENTRYPOINT ["kgqa"]
CMD ["serve", "--host", "0.0.0.0"]
