class Request
  def referer
    @env["HTTP_REFERER"]
  end

  def accept_encoding
    @env["HTTP_ACCEPT_ENCODING"].to_s.split(/,\s*/).map do |part|
      m = PATTERN.match(part)

      if m
        [m[1], (m[2] || 1.0).to_f]
      else
        raise "Invalid value: #{part.inspect}"
      end
    end
  end

  def ip
    @env["REMOTE_ADDR"]
  end
end
