class Arguments
  def parse_string(name)
    if value.empty?
      raise MissingArgument, "no value for #{name}"
    end
    shift
  end
end
